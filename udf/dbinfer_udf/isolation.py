"""Where a model runs: in the host's engine, or in this backend where rows are short or no engine can be had."""

from __future__ import annotations

from time import monotonic

from . import figures
from .engine.client import Engine
from .engine.errors import EngineError
from .process import server_log

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, Optional

ALWAYS, NEVER = "always", "never"
# An inference that is shorter than the way to the engine and back runs in the backend
LEAST_MILLISECONDS = 1.0
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

    def open(self, spec: Dict[str, Any], folder: str, threads: int) -> Optional[Any]:
        """Return the model in the engine; None where this backend is to score.

        Args:
            folder: of the model in the host cache.

        Raises:
            EngineError: the engine cannot be had, and the model must run there.
            ModelError: the model cannot be used.
        """
        isolation = wanted(spec)
        if isolation == NEVER or (isolation != ALWAYS and not self._worth_it(figures.milliseconds(folder))):
            return None
        try:
            model = self.require(spec, folder, threads)
        except EngineError:
            if not self.lose(spec):
                raise
            return None
        # known only now where the model was never tried on this host
        fast = isolation != ALWAYS and not self._worth_it(model.facts.get("infer_milliseconds"))
        if fast:
            # an engine full of models that nobody scores with there would be for nothing
            model.release()
        return None if fast else model

    def require(self, spec: Dict[str, Any], folder: str, threads: int, rows: int = 1) -> Any:
        """Return the model in the engine for so many rows of one inference; EngineError where it cannot be had."""
        return Engine(started_with(spec["settings"]), self._digest, self._modules).open(
            spec, folder, threads, rows
        )

    def _worth_it(self, milliseconds: Optional[float]) -> bool:
        """Return whether to use the engine, as far as is known yet."""
        if monotonic() - self._lost < RETRY_SECONDS:
            return False
        return milliseconds is None or milliseconds >= LEAST_MILLISECONDS

    def lose(self, spec: Dict[str, Any]) -> bool:
        """Do without the engine for a while; return False where the model must run there."""
        if wanted(spec) == ALWAYS:
            return False
        self._lost = monotonic()
        return True
