"""Which functions a model is for, by its task, and how many rows they score as one batch; known without loading
the model.
"""

from __future__ import annotations

from .errors import UsageError

TYPE_CHECKING = False  # of typing itself: see fastjson

if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence


FUNCTIONS = {
    "classification": "classify, classify_top or predict",
    "segmentation": "segment or predict",
    "embedding": "embed or predict",
    "detection": "detect or predict",
    "tensor": "predict or predict_tensor",
}


def require_task(model: str, task: str, needed: str, function: str) -> None:
    """Raise unless the model's task is the one that a function needs."""
    if task != needed:
        raise UsageError(
            'model "%s" is for %s, but %s() needs %s' % (model, task, function, needed),
            hint="Call dbinfer.%s with this model. To see all models: SELECT name, task FROM dbinfer.models"
            % FUNCTIONS[task],
        )


def output_number(model: str, outputs: Sequence[str], wanted: Any) -> int:
    """Return the place of the output of a name among the network's; the first for None.

    Args:
        outputs: as the manifest names them; none where the network has one.
        wanted: a name, or a number, which is what a worker of the engine gets.
    """
    if wanted is None:
        return 0
    if isinstance(wanted, int):
        return wanted
    if wanted in outputs:
        return outputs.index(wanted)
    there = "its outputs are %s" % ", ".join(outputs) if outputs else "it has one, which needs no name"
    raise UsageError(
        'model "%s" has no output "%s": %s' % (model, wanted, there),
        hint="Call dbinfer.predict(img, 'model', output => 'name'); without a name it returns the first output.",
    )


MOST_ROWS = 32  # digits CNN, microseconds a row of inference: 1 row 30, 8 rows 21, 32 rows 17, 128 rows 17
WAITING_BYTES = 1 << 21  # of image files that wait for one batch
RESULT_BYTES = 1 << 23  # of the results of one batch
LEAST_ROWS = 4
# What a batch must win: two figures of one trial differ by a few percent on any machine
PAYS = 0.9
TEXT_BYTES = 14  # of a float32 in the text of an array

# The functions that score in batches, and the task that each needs; as tasks.TASKS and the SQL functions name them
TASK_OF: Dict[str, Optional[str]] = {
    "predict": None,
    "classify": "classification",
    "embed": "embedding",
    "segment": "segmentation",
    "detect": "detection",
}
# whose results are bytea
BINARY = ("segment",)


def pays(alone: object, within: object) -> bool:
    """Return whether an image takes clearly less within a batch: milliseconds that the trial measured, or None."""
    numbers = (int, float)
    return isinstance(alone, numbers) and isinstance(within, numbers) and within < PAYS * alone


def rows_for(img: Optional[bytes], result_bytes: int = 0) -> int:
    """Return how many rows fit a batch: a power of two, as each compiles a network.

    Args:
        img: the first image, for the size of all.
        result_bytes: of a row, at most.
    """
    rows = MOST_ROWS
    while rows > 1 and (rows * len(img or b"") > WAITING_BYTES or rows * result_bytes > RESULT_BYTES):
        rows //= 2
    return rows if rows >= LEAST_ROWS else 1
