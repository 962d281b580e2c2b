"""The models of a backend: loaded here, or run by the host's engine, to which rows go as they are; the most
recently used stay.

Nothing here imports numpy, OpenCV or OpenVINO, which makes the first row of a session fast and its memory small.
"""

from __future__ import annotations

import os
from time import monotonic

from .. import fastjson
from ..errors import EngineError, RowError, sees_hosts
from ..functions import output_number, pays, require_task, rows_for
from ..host import protocol
from ..host.limits import bound, taken
from .isolation import LOADED_HERE

TYPE_CHECKING = False  # of typing itself: see fastjson

if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Sequence, Tuple

    from ..host.protocol import Row


def rows(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the result of each row; one that ends the worker gives None where bad images do.

    Args:
        model: the engine's model.

    Raises:
        ImageError: a bad image, or one that ends the worker, with its row; unless `null`.
    """
    found: List[Any] = []
    # a request may take as long as so many images may
    most = model.facts["rows"]
    for first in range(0, len(wanted), most):
        found += _request(model, function, null, wanted[first : first + most])
    return found


def _request(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    try:
        return _asked(model, function, null, wanted)
    except RowError:
        # one of them did it: alone they tell which
        return [_alone(model, function, null, row) for row in wanted]


def _alone(model: Any, function: str, null: bool, row: Row) -> Any:
    try:
        return _asked(model, function, null, [row])[0]
    except RowError as err:
        if null:
            return None
        raise err.of_row(row[0]) from err


def _asked(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    return protocol.unpack_results(model.ask("rows", b"", (function, null, wanted)), function, len(wanted))


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
    from ..model import waiting

    return waiting.batch(model, img, k)


def rest(model: Remote, img: bytes, k: Any) -> Any:
    """Score what a scan has left; see waiting.rest."""
    from ..model import waiting

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


DEFAULT_MAX_MODELS = 4
MOST_REMOTE = 64  # models of the engine that a session knows; each holds labels, and nothing of the network
# ends the keys of models of the engine: a ticket with such a key asks the engine, and must not meet a model of our own
IN_ENGINE = " engine"


def load_model(session: Any, spec: Dict[str, Any], task: str) -> Tuple[Dict[str, Any], str, Any]:
    """Return (tasks, key, model) of a ticket's spec: loaded now, or found under that key among the session's models.

    The key holds all that decides on results: manifest and limits too, not the files alone.
    """
    settings = spec["settings"]
    threads = bound(settings)
    # `workers` follows a setting of the session, and decides on the threads alone, which the key holds; `hosts` says
    # who asks, and all who do share the model; `usage`, whether rows are counted
    fixed = {name: value for name, value in settings.items() if name not in ("workers", "hosts", "usage")}
    key = fastjson.dumps([{**spec, "settings": fixed}, threads], sort_keys=True)
    # taken out and put back at the end, so that the dict is in the order of use
    model = session.models.pop(key, None) or session.models.pop(key + IN_ENGINE, None)
    if model is None:
        model = _open(session, spec, threads, task) or _load(session, spec, threads)
    if model.in_process:
        tasks = _tasks(settings)
    else:
        tasks, key = remote_tasks(settings), key + IN_ENGINE
    session.models[key] = model
    return tasks, key, model


def _open(session: Any, spec: Dict[str, Any], threads: int, task: str) -> Optional[Remote]:
    """Return the model in the host's engine; None where this backend is to score."""
    # looked at again, because the first row may come long after the admission
    engine = session.engine
    model = engine.open(spec, session.present(spec).folder, threads, task)
    if model is None:
        return None
    _make_room(session, False, MOST_REMOTE)
    if not model.passing:
        return Remote(spec, model)
    return FirstRows(spec, model, engine.serves_another, lambda gone: _let_go(session, gone))


def _let_go(session: Any, model: FirstRows) -> None:
    """Forget a model; who needs it next opens or loads it."""
    for key in [key for key, one in session.models.items() if one is model]:
        del session.models[key]


def _load(session: Any, spec: Dict[str, Any], threads: int) -> Any:
    """Return the model, compiled in this backend for so many threads, or for fewer where those do not pay.

    At most `max_models` stay loaded (setting, default 4); the least recently used one goes first.
    """
    settings = spec["settings"]
    # before the next one is loaded, which needs the memory
    _make_room(session, True, max(1, int(settings.get("max_models", DEFAULT_MAX_MODELS))))
    # only now: they import what comes from the venv, or serve only a model that is loaded here
    openvino = _libraries(settings)["openvino"]
    from ..host.memory import require_memory
    from ..model.model import Model, manifest_of
    from ..model.tried import require_tried

    entry = session.present(spec)
    # before the trial, which needs as much; Model looks again
    require_memory(entry.folder, settings)
    # the registry says nothing that counts here: whoever may deploy could have written it
    precision = manifest_of(spec).precision
    by_threads = require_tried(entry, precision, settings, openvino.get_version(), threads)
    return Model(openvino, entry, spec, taken(settings, threads, by_threads))


def _libraries(settings: Dict[str, str]) -> Dict[str, Any]:
    from ..host.image_limits import image_limits
    from ..host.libraries import load

    return load(settings.get("venv", ""), image_limits(settings).max_pixels)


def _make_room(session: Any, in_process: bool, bound: int) -> None:
    """Drop those of one kind that were not used for longest, so that the next one is within the bound."""
    keys = [key for key, model in session.models.items() if model.in_process == in_process]
    for key in keys[: max(0, len(keys) - bound + 1)]:
        del session.models[key]


def _tasks(settings: Dict[str, str]) -> Dict[str, Any]:
    """Return what the libraries do with an image here."""
    _libraries(settings)
    from ..model.tasks import TASKS, warm_with_host

    return dict(TASKS, warm=warm_with_host) if sees_hosts(settings) else TASKS
