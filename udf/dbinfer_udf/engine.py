"""Loads models into a backend and keeps the most recently used ones."""

from __future__ import annotations

from typing import Any, Dict

from . import libraries, place

DEFAULT_MAX_MODELS = 4


def load_tasks(settings: Dict[str, str]) -> Dict[str, Any]:
    """Import the libraries from the venv of the settings and return the tasks by name."""
    libraries.load(settings.get("venv", ""))
    from .tasks import TASKS

    return TASKS


def load_model(session: Any, facts: Dict[str, Any]) -> Any:
    """Return the model of a ticket's facts, compiled now or found among the models of this backend.

    At most `max_models` stay loaded (setting, default 4); the least recently used one goes first.
    """
    from .model import Model

    settings = facts["settings"]
    threads = place.threads(settings)
    key = (facts["xml_digest"], facts["bin_digest"], str(threads))
    model = session.models.pop(key, None)
    if model is None:
        bound = max(1, int(settings.get("max_models", DEFAULT_MAX_MODELS)))
        while len(session.models) >= bound:
            del session.models[next(iter(session.models))]
        openvino = libraries.load(settings.get("venv", ""))["openvino"]
        model = Model(openvino, session.entry(key[0], key[1]), facts, threads)
    session.models[key] = model
    return model
