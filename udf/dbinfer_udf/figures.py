"""What the trial of a model found on this host: a small file beside the model's files in the host cache."""

from __future__ import annotations

import os
import time

from . import fastjson

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

OUTCOME = {"asked", "error", "setting", "milliseconds", "batch_milliseconds", "compile_milliseconds"}


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
    # one of an older runtime lacks some
    return (values, age) if isinstance(values, dict) and set(values) >= OUTCOME else ({}, 0.0)


def milliseconds(folder: str) -> Optional[float]:
    """Return how long an image took with one thread when the model was last tried here; None where nobody knows."""
    found = read(folder)[0].get("milliseconds")
    return found if isinstance(found, (int, float)) else None
