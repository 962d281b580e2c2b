"""Where a model runs: in the host's engine, or in this backend where rows are short or no engine can be had."""

from __future__ import annotations

import sys
from time import monotonic

from ..errors import EngineError, UdfError
from ..host.interrupts import CANCELLED
from ..host.process import server_log
from ..model import figures
from .client import Engine

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

ALWAYS, NEVER = "always", "never"
# An inference that is shorter than the way to the engine and back runs in the backend
LEAST_MILLISECONDS = 1.0
# Rows of fast models that a fresh session may leave to a running engine. Each costs some 70 us more there, and the
# libraries that a session imports to score by itself cost 100 ms and more: about so many rows
FIRST_ROWS = 1000
# and so long, because rows wait there for those of slow models
FIRST_SECONDS = 0.25
# What asks for these loads the model here in any case: whole tables, and who wants to know how it does here
LOADED_HERE = ("batch", "rest", "warm", "profile")
# How long a session does without an engine that could not be had, before it asks again
RETRY_SECONDS = 60.0


def wanted(spec: Dict[str, Any]) -> str:
    """Return what the database and the model say together: the database's `always` is a promise for all models."""
    database: str = spec["settings"].get("isolation") or "auto"
    return database if database == ALWAYS else spec.get("isolation") or database


def started_with(settings: Dict[str, str]) -> Dict[str, str]:
    """Return the settings that an engine starts with: its log lies beside that of the server, where there is one."""
    log = server_log("dbinfer-engine.log")
    return dict(settings, engine_log=log) if log else settings


class HostEngine:
    """The engine of this host as one session sees it.

    Args:
        digest: of the runtime.
        modules: returns its sources, which an engine that is started runs.
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
        isolation = wanted(spec)
        if isolation == ALWAYS:
            return self.require(spec, folder, threads)
        if isolation == NEVER or monotonic() - self._lost < RETRY_SECONDS:
            return None
        passing = self._first_rows > 0 and task not in LOADED_HERE and "numpy" not in sys.modules
        known = figures.milliseconds(folder)
        if fast(known) and not passing:
            return None
        try:
            # not started for a few rows: 70 MB of the host's memory would wait for the next fresh session
            model = self.require(spec, folder, threads, starts=not fast(known))
        except UdfError as err:
            # what the engine has against a fast model counts for nothing here; a fault of the model shows again
            if not isinstance(err, EngineError) and (not fast(known) or err.sqlstate == CANCELLED):
                raise
            self.lose(spec, passing=fast(known))
            return None
        # known only now where the model was never tried on this host
        model.passing = fast(known) or fast(model.facts.get("infer_milliseconds"))
        if model.passing and not passing:
            # an engine full of models that nobody scores with there would be for nothing
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
        """Count a row of a fast model and its seconds; return whether the engine serves this session more of them."""
        self._first_rows -= 1
        self._first_seconds -= seconds
        if self._first_seconds <= 0:
            self._first_rows = 0
        return self._first_rows > 0

    def lose(self, spec: Dict[str, Any], passing: bool = False) -> bool:
        """Do without the engine for a while; return False where the model must run there.

        Args:
            passing: the engine served first rows only, and none is started for those.
        """
        if wanted(spec) == ALWAYS:
            return False
        self._first_rows = 0
        if not passing:
            self._lost = monotonic()
        return True


def fast(milliseconds: Optional[float]) -> bool:
    """Return whether the model is known to run in the backend faster than the way to the engine and back takes."""
    return milliseconds is not None and milliseconds < LEAST_MILLISECONDS
