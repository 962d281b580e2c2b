"""Which functions a model is for, by its task; what is known without loading it is said before."""

from __future__ import annotations

from .errors import UsageError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Sequence

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
