"""Loads models into a backend and keeps the most recently used ones."""

from __future__ import annotations

import json
from typing import Any, Dict, Tuple

from . import libraries
from .errors import sees_hosts
from .image_limits import image_limits
from .memory import require_memory
from .threads import threads as allowed_threads
from .tried import require_tried

DEFAULT_MAX_MODELS = 4


def load_tasks(settings: Dict[str, str], with_model: bool) -> Dict[str, Any]:
    """Import the libraries from the venv of the settings; return the tasks by name: those with a model, or without."""
    libraries.load(settings.get("venv", ""), image_limits(settings).max_pixels)
    # only now: they import numpy and cv2, which come from the venv
    from .tasks import IMAGE_TASKS, TASKS, warm_with_host

    if not with_model:
        return IMAGE_TASKS
    return dict(TASKS, warm=warm_with_host) if sees_hosts(settings) else TASKS


def load_model(session: Any, spec: Dict[str, Any]) -> Tuple[str, Any]:
    """Return (key, model) of a ticket's spec, compiled now or found under that key among the session's models.

    The key holds all that decides on results: manifest and limits too, not the files alone.
    At most `max_models` stay loaded (setting, default 4); the least recently used one goes first.
    """
    from .model import Model

    settings = spec["settings"]
    threads = allowed_threads(settings)
    # `workers` follows a setting of the session, and decides on the threads alone, which the key holds; `hosts` says
    # who asks, and all who do share the model
    fixed = {name: value for name, value in settings.items() if name not in ("workers", "hosts")}
    key = json.dumps([{**spec, "settings": fixed}, threads], sort_keys=True)
    # taken out and put back at the end, so that the dict is in the order of use
    model = session.models.pop(key, None)
    if model is None:
        bound = max(1, int(settings.get("max_models", DEFAULT_MAX_MODELS)))
        # before the next one is loaded, which needs the memory
        while len(session.models) >= bound:
            del session.models[next(iter(session.models))]
        openvino = libraries.load(settings.get("venv", ""))["openvino"]
        # looked at again, because the first row may come long after the admission
        entry = session.present(spec)
        # the registry says nothing that counts here: whoever may deploy could have written it
        require_tried(entry, spec["manifest"].get("precision", "f32"), settings, openvino.get_version())
        require_memory(entry.folder, settings)
        model = Model(openvino, entry, spec, threads)
    session.models[key] = model
    return key, model
