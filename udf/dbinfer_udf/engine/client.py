"""What a backend, the command line and the doctor call: open a model in the engine, ask it for rows, status and stop.

Standard library only: a backend that scores through the engine imports neither numpy nor OpenCV nor OpenVINO.
"""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from .errors import CancelledError, EngineError, RowError

__all__ = [
    "CancelledError",
    "Engine",
    "EngineError",
    "RemoteModel",
    "RowError",
    "run_service",
    "status",
    "stop",
]


class Engine:
    """The way to the engine of this host and user, as one runtime knows it.

    Args:
        settings: of the database; engine_dir, engine_idle_seconds, engine_memory_mb and venv count here.
        digest: of the runtime; an engine of another one is another engine.
        modules: the runtime's sources, which the engine runs.
    """

    def __init__(self, settings: Dict[str, str], digest: str, modules: Dict[str, str]) -> None:
        self.settings = settings
        self.digest = digest
        self.modules = modules

    def open(self, spec: Dict[str, Any], folder: str, threads: int, rows: int = 1) -> RemoteModel:
        """Return the model, loaded in the engine; start the engine and load the model where needed.

        Args:
            spec: of the ticket: model, version, xml_digest, bin_digest, manifest, settings.
            folder: of the model's entry in the host cache.
            threads: for one inference.
            rows: images of one inference.

        Raises:
            EngineError: the engine cannot be started or reached.
            ModelError: what load_model would raise in the backend.
            CancelledError: the statement was cancelled meanwhile.
        """
        raise EngineError("the engine is not built yet")


class RemoteModel:
    """A model in the engine.

    Attributes:
        facts: `rows` of one inference, `compile_milliseconds`, `infer_milliseconds` of the trial.
    """

    facts: Dict[str, Any]

    def ask(self, task: str, img: Optional[bytes], k: Any) -> Any:
        """Return what TASKS[task](model, img, k) returns in the engine, or raise what it raises.

        Raises:
            RowError: the worker died of this row, or took more time or memory than it may.
            EngineError: the engine has gone and cannot be started again.
            CancelledError: the statement was cancelled meanwhile.
        """
        raise NotImplementedError


def status(settings: Dict[str, str]) -> List[Dict[str, Any]]:
    """Return the facts of each engine of this user's folder; see supervisor.facts."""
    return []


def stop(settings: Dict[str, str], digest: Optional[str] = None, keep: Optional[str] = None) -> int:
    """Tell engines to finish what runs and go; return how many were told.

    Args:
        digest: only the engine of this runtime.
        keep: all but the engine of this runtime.
    """
    return 0


def run_service(settings: Dict[str, str], digest: str, modules: Dict[str, str]) -> int:
    """Be the engine in this process until it is told to stop; no idle end, no server. Return the exit status."""
    raise EngineError("the engine is not built yet")
