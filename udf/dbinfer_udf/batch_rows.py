"""How many rows a batch has: by what the trial measured, and by the size of images and results."""

from __future__ import annotations

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Dict, Optional

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
