"""Loads models into a backend, or opens them in the host's engine, and keeps the most recently used ones."""

from __future__ import annotations

from . import fastjson
from .errors import sees_hosts
from .remote import FirstRows, Remote, remote_tasks
from .threads import bound, taken

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple

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
    from .memory import require_memory
    from .model import Model, manifest_of
    from .tried import require_tried

    entry = session.present(spec)
    # before the trial, which needs as much; Model looks again
    require_memory(entry.folder, settings)
    # the registry says nothing that counts here: whoever may deploy could have written it
    precision = manifest_of(spec).precision
    by_threads = require_tried(entry, precision, settings, openvino.get_version(), threads)
    return Model(openvino, entry, spec, taken(settings, threads, by_threads))


def _libraries(settings: Dict[str, str]) -> Dict[str, Any]:
    from .image_limits import image_limits
    from .libraries import load

    return load(settings.get("venv", ""), image_limits(settings).max_pixels)


def _make_room(session: Any, in_process: bool, bound: int) -> None:
    """Drop those of one kind that were not used for longest, so that the next one is within the bound."""
    keys = [key for key, model in session.models.items() if model.in_process == in_process]
    for key in keys[: max(0, len(keys) - bound + 1)]:
        del session.models[key]


def _tasks(settings: Dict[str, str]) -> Dict[str, Any]:
    """Return what the libraries do with an image here."""
    _libraries(settings)
    from .tasks import TASKS, warm_with_host

    return dict(TASKS, warm=warm_with_host) if sees_hosts(settings) else TASKS
