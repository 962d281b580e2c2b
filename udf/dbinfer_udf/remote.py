"""A model that the host's engine runs: rows go there as they are, and results come back as they leave for SQL.

Nothing here imports numpy, OpenCV or OpenVINO, which makes the first row of a session fast and its memory small.
"""

from __future__ import annotations

import os
from time import monotonic

from . import fastjson
from .batch_rows import pays, rows_for
from .engine.errors import EngineError
from .errors import sees_hosts
from .isolation import LOADED_HERE
from .purpose import output_number, require_task

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    Task = Callable[[Any, bytes, Any], Any]

# with `predict`, `tensor`, `batch` and `rest` these are the functions of a model, as tasks.TASKS has them
ASKED = ("classify", "classify_top", "segment", "embed", "profile", "warm", "detect")


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
        self.threads: int = model.facts["threads"]
        # bound once, because every row calls it
        self.ask = model.ask
        self.waited_for = model.waited_for
        self._wide = model

    def require(self, task: str, function: str) -> None:
        """Raise unless the model is of a task."""
        require_task(self.name, self.spec["manifest"]["task"], task, function)

    def number(self, output: Any) -> int:
        """Return the place of an output among the network's."""
        return output_number(self.name, self.spec["manifest"].get("outputs", ()), output)

    def batch_rows(self, img: Optional[bytes]) -> int:
        """Return how many rows to collect; see model.Model.batch_rows."""
        facts = self.model.facts
        worth_it = pays(facts["infer_milliseconds"], facts["batch_milliseconds"])
        rows = rows_for(img, facts["result_bytes"]) if worth_it else 1
        self._wide = self.model.wide(rows)
        found: int = self._wide.facts["rows"]
        return found

    def rows(self, function: str, null: bool, wanted: Sequence[Tuple[int, Optional[bytes]]]) -> List[Any]:
        """Return the results of many rows, which one request takes to the engine."""
        from .engine.remote_batch import rows

        return rows(self._wide, function, null, wanted)


class FirstRows(Remote):
    """A fast model of the engine that serves the first rows of a fresh session, until that is to load it by itself.

    What wants the model loaded here gets an EngineError, after which the session does so.

    Args:
        another: counts a row and its seconds; returns whether the engine serves one more.
        let_go: makes the session forget this model.
    """

    def __init__(
        self,
        spec: Dict[str, Any],
        model: Any,
        another: Callable[[float], bool],
        let_go: Callable[[Any], None],
    ) -> None:
        super().__init__(spec, model)
        self.ask = self._ask
        self._another = another
        self._let_go = let_go

    def _ask(self, task: str, img: Optional[bytes], k: Any) -> Any:
        if task in LOADED_HERE:
            raise _loads_here()
        started = monotonic()
        answer = self.model.ask(task, img, k)
        # after the answer: a row whose engine is lost on the way finds the model still known, and is scored here
        if not self._another(monotonic() - started):
            self._let_go(self)
        return answer

    def batch_rows(self, img: Optional[bytes]) -> int:
        """Raise EngineError: whole tables are scored here."""
        raise _loads_here()

    def rows(self, function: str, null: bool, wanted: Sequence[Tuple[int, Optional[bytes]]]) -> List[Any]:
        """Raise EngineError: what parallel workers have left of a whole table is scored here."""
        raise _loads_here()


def _loads_here() -> EngineError:
    return EngineError("the engine serves only the first rows of this model")


def _asking(task: str) -> Task:
    def ask(model: Remote, img: bytes, k: Any) -> Any:
        return model.ask(task, img, k)

    return ask


def _asking_output(task: str) -> Task:
    def ask(model: Remote, img: bytes, k: Any) -> Any:
        # requests have a place for a number
        return model.ask(task, img, None if k is None else model.number(k))

    return ask


def warm_with_host(model: Remote, img: bytes, k: Optional[int]) -> str:
    """Run the network once in the engine; return segment, host and pid of this process, and how long it waited."""
    return fastjson.dumps(dict(fastjson.loads(model.ask("warm", img, k)), host=os.uname().nodename))


def batch(model: Remote, img: bytes, k: Any) -> Any:
    """Take a row into its scan's batch; see waiting.batch."""
    # only here: most sessions score no table
    from . import waiting

    return waiting.batch(model, img, k)


def rest(model: Remote, img: bytes, k: Any) -> Any:
    """Score what a scan has left; see waiting.rest."""
    from . import waiting

    return waiting.rest(model, img, k)


REMOTE_TASKS: Dict[str, Task] = {
    **{task: _asking(task) for task in ASKED},
    **{task: _asking_output(task) for task in ("predict", "tensor")},
    "batch": batch,
    "rest": rest,
}
WITH_HOST: Dict[str, Task] = dict(REMOTE_TASKS, warm=warm_with_host)


def remote_tasks(settings: Dict[str, str]) -> Dict[str, Task]:
    """Return the functions of a model of the engine, for who asks with these settings."""
    return WITH_HOST if sees_hosts(settings) else REMOTE_TASKS
