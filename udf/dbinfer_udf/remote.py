"""A model that the host's engine runs: rows go there as they are, and results come back as they leave for SQL.

Nothing here imports numpy, OpenCV or OpenVINO, which makes the first row of a session fast and its memory small.
"""

from __future__ import annotations

import os

from . import fastjson
from .engine.errors import EngineError
from .errors import ModelError, sees_hosts
from .purpose import require_task

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

    Task = Callable[[Any, bytes, Any], Any]

# with `batch` these are the functions of a model, as tasks.TASKS has them
ASKED = ("predict", "tensor", "classify", "classify_top", "segment", "embed", "profile", "warm", "detect")


class Remote:
    """One model of the engine, as a session keeps it.

    Args:
        spec: of the ticket.
        model: what the engine's client has opened.
    """

    in_process = False

    def __init__(self, spec: Dict[str, Any], model: Any) -> None:
        self.name: str = spec["model"]
        self.version: int = spec["version"]
        self.spec = spec
        self.model = model
        # bound once, because every row calls it
        self.ask = model.ask
        self.waited_for = model.waited_for

    def require(self, task: str, function: str) -> None:
        """Raise unless the model is of a task."""
        require_task(self.name, self.spec["manifest"]["task"], task, function)


def _asking(task: str) -> Task:
    def ask(model: Remote, img: bytes, k: Any) -> Any:
        return model.ask(task, img, k)

    return ask


def warm_with_host(model: Remote, img: bytes, k: Optional[int]) -> str:
    """Run the network once in the engine; return segment, host and pid of this process, and how long it waited."""
    return fastjson.dumps(dict(fastjson.loads(model.ask("warm", img, k)), host=os.uname().nodename))


def batch(model: Remote, img: bytes, row: Any) -> bytes:
    """Take (scan, id, image, on_error); return the rows that wait, or the results of a whole batch, as batch.batch."""
    waiting = model.model.batch
    if waiting is None or waiting.scan != row[0]:
        model.require("classification", "classify_table")
        return bytes(model.ask("batch", img, row))
    try:
        return bytes(model.ask("batch", img, row))
    except EngineError as err:
        # not an EngineError: the ticket would do this row in the backend, and those that waited would be missing
        raise ModelError(err.message, err.detail, err.hint, err.sqlstate, err.public) from err


REMOTE_TASKS: Dict[str, Task] = {**{task: _asking(task) for task in ASKED}, "batch": batch}
WITH_HOST: Dict[str, Task] = dict(REMOTE_TASKS, warm=warm_with_host)


def remote_tasks(settings: Dict[str, str]) -> Dict[str, Task]:
    """Return the functions of a model of the engine, for who asks with these settings."""
    return WITH_HOST if sees_hosts(settings) else REMOTE_TASKS
