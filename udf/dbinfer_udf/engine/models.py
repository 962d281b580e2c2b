"""The models of a backend: run by the host's engine, to which rows go as they are, or loaded here where rows are short
or no engine can be had; the most recently used stay.

Nothing here imports numpy, OpenCV or OpenVINO, which makes the first row of a session fast and its memory small.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from .. import fastjson
from ..errors import EngineError, RowError, UdfError, sees_hosts
from ..host import protocol
from ..host.cache import is_fast, milliseconds_of
from ..host.interrupts import CANCELLED
from ..host.limits import most_threads, threads_taken
from ..host.process import server_log
from ..tasks import FUNCTIONS, output_number, pays, require_task, rows_for, wants_tiles
from .client import Engine

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    from ..host.protocol import Row

    Run = Callable[[Any, bytes, Any], Any]

ALWAYS, NEVER = "always", "never"
# Rows of fast models that a fresh session may leave to a running engine. Each costs some 70 us more there; importing
# the libraries to score by itself costs a session 100 ms and more, about as much as so many rows
FIRST_ROWS = 1000
# and for how long, because rows wait there for those of slow models
FIRST_SECONDS = 0.25
# These load the model here in any case: whole tables, and questions about how the model does here
LOADED_HERE = ("batch", "rest", "warm", "profile")
# How long a session does without an engine that could not be reached before it tries again
RETRY_SECONDS = 60.0


def wanted_isolation(spec: Dict[str, Any]) -> str:
    """Return where the model is to run: as the model says, but the database's `always` is a promise for all models."""
    database: str = spec["settings"].get("isolation") or "auto"
    return database if database == ALWAYS else spec.get("isolation") or database


def started_with(settings: Dict[str, str]) -> Dict[str, str]:
    """Return the settings with which an engine starts: its log lies beside the server's, if the server keeps one."""
    log = server_log("dbinfer-engine")
    return dict(settings, engine_log=log) if log else settings


class HostEngine:
    """The engine of this host as one session sees it.

    Args:
        digest: of the runtime.
        modules: returns its sources, which a new engine runs.
    """

    def __init__(self, digest: str, modules: Callable[[], Dict[str, str]]) -> None:
        self._digest = digest
        self._modules = modules
        self._lost = -RETRY_SECONDS
        self._first_rows, self._first_seconds = FIRST_ROWS, FIRST_SECONDS

    def open(self, spec: Dict[str, Any], folder: str, threads: int, task: str = "") -> Optional[Any]:
        """Return the model in the engine; None where this backend is to score.

        A fast model whose `passing` is true serves first rows there: see serves_another.

        Args:
            folder: of the model in the host cache.
            threads: for one inference, at most.
            task: what asks for it.

        Raises:
            EngineError: the engine cannot be had, and the model must run there.
            ModelError: the model cannot be used.
        """
        isolation = wanted_isolation(spec)
        if isolation == ALWAYS:
            return self.require(spec, folder, threads)
        if isolation == NEVER or monotonic() - self._lost < RETRY_SECONDS:
            return None
        passing = self._first_rows > 0 and task not in LOADED_HERE and "numpy" not in sys.modules
        known = milliseconds_of(folder)
        if is_fast(known) and not passing:
            return None
        try:
            # not started for a few rows: 70 MB of the host's memory would wait for the next fresh session
            model = self.require(spec, folder, threads, starts=not is_fast(known))
        except UdfError as err:
            # an error of the engine about a fast model does not count here; a fault of the model will show again
            if not isinstance(err, EngineError) and (not is_fast(known) or err.sqlstate == CANCELLED):
                raise
            self.lose(spec, passing=is_fast(known))
            return None
        # known only now if the model was never tried on this host
        model.passing = is_fast(known) or is_fast(model.facts.get("infer_milliseconds"))
        if model.passing and not passing:
            # so that the engine does not fill with models with which nobody scores there
            model.release()
            return None
        return model

    def require(
        self, spec: Dict[str, Any], folder: str, threads: int, rows: int = 1, starts: bool = True
    ) -> Any:
        """Return the model in the engine for so many rows of one inference; EngineError where it cannot be had."""
        settings = started_with(spec["settings"])
        return Engine(settings, self._digest, self._modules, starts).open(spec, folder, threads, rows)

    def serves_another(self, seconds: float) -> bool:
        """Count a row of a fast model and its seconds; return whether the engine serves this session another."""
        self._first_rows -= 1
        self._first_seconds -= seconds
        if self._first_seconds <= 0:
            self._first_rows = 0
        return self._first_rows > 0

    def lose(self, spec: Dict[str, Any], passing: bool = False) -> bool:
        """Do without the engine for a while; return False where the model must run there.

        Args:
            passing: the engine served first rows only, for which none is started.
        """
        if wanted_isolation(spec) == ALWAYS:
            return False
        self._first_rows = 0
        if not passing:
            self._lost = monotonic()
        return True


def score_rows(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the result of each row; None for a row that ends the worker, where bad images give None, too.

    Args:
        model: the engine's model.

    Raises:
        ImageError: a bad image, or one that ends the worker, with its row; unless `null`.
    """
    found: List[Any] = []
    # the time limit of a request is that of so many images
    most = model.facts["rows"]
    for first in range(0, len(wanted), most):
        found += _rows_together(model, function, null, wanted[first : first + most])
    return found


def _rows_together(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    try:
        return _ask_rows(model, function, null, wanted)
    except RowError:
        # one of them did it: sent one by one they show which
        return [_row_alone(model, function, null, row) for row in wanted]


def _row_alone(model: Any, function: str, null: bool, row: Row) -> Any:
    try:
        return _ask_rows(model, function, null, [row])[0]
    except RowError as err:
        if null:
            return None
        raise err.of_row(row[0]) from err


def _ask_rows(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    return protocol.unpack_results(model.ask("rows", b"", (function, null, wanted)), function, len(wanted))


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
        self.tile: bool = spec["manifest"].get("tile", False)
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
        worth_it = not self.tile and pays(facts["infer_milliseconds"], facts["batch_milliseconds"])
        rows = rows_for(img, facts["result_bytes"]) if worth_it else 1
        self._wide = self.model.wide(rows)
        found: int = self._wide.facts["rows"]
        return found

    def rows(self, function: str, null: bool, wanted: Sequence[Tuple[int, Optional[bytes]]]) -> List[Any]:
        """Return the results of many rows, which one request takes to the engine."""
        if wants_tiles(FUNCTIONS[function], None, self.tile):
            found: List[Any] = self._tiled().each(self.by_tiles, function, null, wanted)
            return found
        return score_rows(self._wide, function, null, wanted)

    def by_tiles(self, function: str, img: bytes) -> Any:
        """Return the result of an image that is cut here, and goes through the engine's network tile by tile."""
        tiled = self._tiled()
        from ..model.model import manifest_of

        # the promise of `always`: no image is decoded in a backend
        elsewhere = wanted_isolation(self.spec) == ALWAYS
        return tiled.scored(
            manifest_of(self.spec),
            self.spec["settings"],
            function,
            img,
            lambda tile, meanwhile: self.ask("tile", tile, None, meanwhile),
            elsewhere,
        )

    def _tiled(self) -> Any:
        # a process may come here that has decoded nothing yet
        _libraries(self.spec["settings"])
        from ..model import tiled

        return tiled


class FirstRows(Remote):
    """A fast model of the engine that serves the first rows of a fresh session, until that is to load it by itself.

    Whatever needs the model loaded here gets an EngineError, after which the session loads it.

    Args:
        another: counts a row and its seconds, and returns whether the engine serves one more.
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

    def _ask(
        self, task: str, img: Optional[bytes], k: Any, meanwhile: Optional[Callable[[], None]] = None
    ) -> Any:
        if task in LOADED_HERE:
            raise _loads_here()
        started = monotonic()
        answer = self.model.ask(task, img, k, meanwhile)
        # after the answer: if the engine is lost on the way, the row finds the model still known, and is scored here
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


def _asking(task: str) -> Run:
    def ask(model: Remote, img: bytes, k: Any) -> Any:
        return model.ask(task, img, k)

    return ask


def _asking_in_tiles(task: str) -> Run:
    function = FUNCTIONS[task]

    def ask(model: Remote, img: bytes, k: Any) -> Any:
        if not wants_tiles(function, k, model.tile):
            return model.ask(task, img, k)
        model.require(function.task or "", function.sql)
        return model.by_tiles(task, img)

    return ask


def _asking_output(task: str) -> Run:
    def ask(model: Remote, img: bytes, k: Any) -> Any:
        # a request has room for a number, not for a name
        return model.ask(task, img, None if k is None else model.number(k))

    return ask


def warm_with_host(model: Remote, img: bytes, k: Optional[int]) -> str:
    """Run the network once in the engine; return segment, host and pid of this process, and how long it waited."""
    return fastjson.dumps(dict(fastjson.loads(model.ask("warm", img, k)), host=os.uname().nodename))


def batch(model: Remote, img: bytes, k: Any) -> Any:
    """Take a row into its scan's batch; see waiting.take_row."""
    # only here: most sessions score no table
    from ..model import waiting

    return waiting.take_row(model, img, k)


def rest(model: Remote, img: bytes, k: Any) -> Any:
    """Score what a scan has left; see waiting.score_rest."""
    from ..model import waiting

    return waiting.score_rest(model, img, k)


def _asking_function(name: str) -> Run:
    function = FUNCTIONS[name]
    kind = (
        _asking_in_tiles if function.tiled else _asking_output if function.argument == "output" else _asking
    )
    return kind(name)


REMOTE_RUNS: Dict[str, Run] = {
    **{name: _asking_function(name) for name in FUNCTIONS},
    **{name: _asking(name) for name in ("profile", "warm", "outputs", "tile")},
    "batch": batch,
    "rest": rest,
}
WITH_HOST: Dict[str, Run] = dict(REMOTE_RUNS, warm=warm_with_host)


def remote_runs(settings: Dict[str, str]) -> Dict[str, Run]:
    """Return the functions of a model of the engine, for a caller with these settings."""
    return WITH_HOST if sees_hosts(settings) else REMOTE_RUNS


DEFAULT_MAX_MODELS = 4
MOST_REMOTE = 64  # models of the engine that a session knows; each holds labels and nothing of the network
# Ends the keys of the engine's models: a ticket with such a key asks the engine, and must not find a model loaded here
IN_ENGINE = " engine"


def load_model(session: Any, spec: Dict[str, Any], task: str) -> Tuple[Dict[str, Any], str, Any]:
    """Return (tasks, key, model) of a ticket's spec: loaded now, or found under that key among the session's models.

    The key holds all that results depend on: files, manifest and limits.
    """
    settings = spec["settings"]
    threads = most_threads(settings)
    # left out: `workers` follows a setting of the session and matters only to the threads, which the key holds; `hosts`
    # says who asks, and all callers share the model; `usage` says whether rows are counted
    fixed = {name: value for name, value in settings.items() if name not in ("workers", "hosts", "usage")}
    key = fastjson.dumps([{**spec, "settings": fixed}, threads], sort_keys=True)
    # taken out, and put back at the end, so that the dict stays in the order of use
    model = session.models.pop(key, None) or session.models.pop(key + IN_ENGINE, None)
    if model is None:
        model = _open_in_engine(session, spec, threads, task) or _load_here(session, spec, threads)
    if model.in_process:
        tasks = _runs_here(settings)
    else:
        tasks, key = remote_runs(settings), key + IN_ENGINE
    session.models[key] = model
    return tasks, key, model


def _open_in_engine(session: Any, spec: Dict[str, Any], threads: int, task: str) -> Optional[Remote]:
    """Return the model in the host's engine; None if this backend is to score."""
    # checked again, because the first row may come long after the admission
    engine = session.engine
    model = engine.open(spec, session.present(spec).folder, threads, task)
    if model is None:
        return None
    _make_room(session, False, MOST_REMOTE)
    if not model.passing:
        return Remote(spec, model)
    return FirstRows(spec, model, engine.serves_another, lambda gone: _let_go(session, gone))


def _let_go(session: Any, model: FirstRows) -> None:
    """Forget a model; the next row that needs it opens or loads it."""
    for key in [key for key, one in session.models.items() if one is model]:
        del session.models[key]


def _load_here(session: Any, spec: Dict[str, Any], threads: int) -> Any:
    """Return the model, compiled in this backend for so many threads, or for fewer where those do not pay.

    At most `max_models` stay loaded (setting, default 4); the least recently used one goes first.
    """
    settings = spec["settings"]
    # before the next one is loaded, which needs the memory
    _make_room(session, True, max(1, int(settings.get("max_models", DEFAULT_MAX_MODELS))))
    # imported only now: they need the venv's packages, or only a model that is loaded here needs them
    openvino = _libraries(settings)["openvino"]
    from ..host.memory import require_memory
    from ..model.model import Model, manifest_of
    from ..model.tried import require_tried

    entry = session.present(spec)
    # before the trial, which needs as much as the model; Model checks again
    require_memory(entry.folder, settings)
    # what the registry says of a trial does not count here: whoever may deploy could have written it
    precision = manifest_of(spec).precision
    by_threads = require_tried(entry, precision, settings, openvino.get_version(), threads)
    return Model(openvino, entry, spec, threads_taken(settings, threads, by_threads))


def _libraries(settings: Dict[str, str]) -> Dict[str, Any]:
    from ..host.libraries import import_libraries
    from ..image.file import image_limits

    return import_libraries(settings.get("venv", ""), image_limits(settings).max_pixels)


def _make_room(session: Any, in_process: bool, bound: int) -> None:
    """Drop the least recently used models of one kind, so that the next one is within the bound."""
    keys = [key for key, model in session.models.items() if model.in_process == in_process]
    for key in keys[: max(0, len(keys) - bound + 1)]:
        del session.models[key]


def _runs_here(settings: Dict[str, str]) -> Dict[str, Any]:
    """Return what the libraries do with an image here."""
    _libraries(settings)
    from ..model.functions import RUNS, warm_with_host

    return dict(RUNS, warm=warm_with_host) if sees_hosts(settings) else RUNS
