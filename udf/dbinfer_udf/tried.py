"""Lets nothing be compiled in a backend that was not tried on this host: the first use of a model tries it.

The registry's word is not enough, because whoever may deploy can write there what he likes. The outcome lies beside
the model's files in the host cache, which only the server's user can write.
"""

from __future__ import annotations

import fcntl
import json
import os
import sys
import tempfile
from typing import Any, Dict, Optional

from . import interrupts
from .cache import Entry
from .errors import ModelError
from .trial import AbandonedError, Limits, TrialError, run_trial


def require_tried(entry: Entry, precision: str, settings: Dict[str, str]) -> None:
    """Return where the model passed its trial on this host; try it now where nobody has.

    Raises:
        ModelError: it failed, now or before under the same limits; or the statement was cancelled meanwhile.
    """
    limits = Limits.from_settings(settings)
    asked = [precision, *limits]
    outcome = _read(entry)
    if outcome is None or outcome["asked"] != asked:
        with open(os.path.join(entry.folder, "trial.lock"), "w") as lock:
            fcntl.flock(
                lock, fcntl.LOCK_EX
            )  # parallel workers come here together: one tries, the others read
            outcome = _read(entry)
            if outcome is None or outcome["asked"] != asked:
                outcome = _try(entry, precision, limits, settings)
                _write(entry, dict(outcome, asked=asked))
    if outcome["error"]:
        raise ModelError("the model was not run: %s" % outcome["error"], hint=_hint(outcome["setting"]))


def _try(entry: Entry, precision: str, limits: Limits, settings: Dict[str, str]) -> Dict[str, Any]:
    try:
        with interrupts.signals_open():
            run_trial(_python(settings), entry.path("xml"), precision, limits, interrupts.cancelled)
    except TrialError as err:
        return {"error": err.message, "setting": err.setting}
    except AbandonedError:
        raise ModelError("the statement was cancelled while the model was tried", sqlstate="57014") from None
    return {"error": "", "setting": ""}


def _python(settings: Dict[str, str]) -> str:
    """Return the interpreter of the venv; where there is none, that of this process."""
    venv = settings.get("venv", "")
    if venv:
        return os.path.join(venv, "bin", "python")
    # In a backend sys.executable may be the server's or empty: Python is embedded there
    return os.path.join(sys.base_exec_prefix, "bin", "python%d.%d" % sys.version_info[:2])


def _hint(setting: str) -> str:
    if not setting:
        return "Convert and deploy it again, and compare the OpenVINO versions with dbinfer doctor."
    return "If the model is right, allow more: dbinfer install --%s NUMBER" % setting.replace("_", "-")


def _path(entry: Entry) -> str:
    return os.path.join(entry.folder, "trial.json")


def _read(entry: Entry) -> Optional[Dict[str, Any]]:
    try:
        with open(_path(entry)) as file:
            values = json.load(file)
    except (OSError, ValueError):
        return None
    return values if isinstance(values, dict) and {"asked", "error", "setting"} <= set(values) else None


def _write(entry: Entry, outcome: Dict[str, Any]) -> None:
    fd, temporary = tempfile.mkstemp(dir=entry.folder, suffix=".tmp")
    with os.fdopen(fd, "w") as file:
        json.dump(outcome, file)
    os.rename(temporary, _path(entry))
