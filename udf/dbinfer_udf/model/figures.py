"""What the trial of a model found on this host: a small file beside the model's files in the host cache."""

from __future__ import annotations

import os
import time

from .. import fastjson

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

NUMBERS = ("milliseconds", "batch_milliseconds", "compile_milliseconds")
OUTCOME = {"asked", "error", "setting", *NUMBERS}


def path(folder: str) -> str:
    """Return the file's name; `folder` is that of the model in the host cache."""
    return os.path.join(folder, "trial.json")


def read(folder: str) -> Tuple[Dict[str, Any], float]:
    """Return the outcome of the last trial and its age in seconds; nothing where there is none."""
    try:
        with open(path(folder)) as file:
            values = fastjson.loads(file.read())
            # of the open file: another may have its name by now
            age = time.time() - os.fstat(file.fileno()).st_mtime
    except (OSError, ValueError):
        return {}, 0.0
    return (values, age) if _sound(values) else ({}, 0.0)


def _sound(values: Any) -> bool:
    """Return whether an outcome has the types that the runtime writes: what serves the model can write there, too."""
    # one of an older runtime lacks some
    if not isinstance(values, dict) or not set(values) >= OUTCOME:
        return False
    by_threads = values.get("by_threads") or {}
    return (
        isinstance(values["error"], str)
        and isinstance(values["setting"], str)
        and all(values[name] is None or is_time(values[name]) for name in NUMBERS)
        and isinstance(by_threads, dict)
        and ("by_threads" in values) <= ("busy" in values)
        and all(number.isdecimal() and is_time(taken) for number, taken in by_threads.items())
    )


def is_time(value: Any) -> bool:
    """Return whether a value is a number that a trial can have measured."""
    # false also of what is no number
    return isinstance(value, (int, float)) and 0 <= value < 1e12


def milliseconds(folder: str) -> Optional[float]:
    """Return how long an image took with one thread when the model was last tried here; None where nobody knows."""
    found: Optional[float] = read(folder)[0].get("milliseconds")
    return found
