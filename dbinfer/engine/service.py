"""Runs the engine of this host as a service, for systemd or a container: no backend starts it, and it stays."""

from __future__ import annotations

from dataclasses import dataclass

from dbinfer.errors import ServerError
from dbinfer.install.content import Content
from dbinfer_udf.engine.client import run_service
from dbinfer_udf.errors import UdfError


@dataclass(frozen=True)
class ServiceOptions:
    """How the service runs; the database's settings hold for the models.

    Attributes:
        venv: whose Python runs it; the one that the database names.
        folder: of its sockets; None: /run/dbinfer-engine where that is this user's, else below /tmp.
        memory_mb: of all models; beyond it the model that was not used for longest goes.
    """

    venv: str
    folder: str | None = None
    memory_mb: int | None = None


def serve(options: ServiceOptions) -> int:
    """Be the engine of this host and user until it is told to stop; this process becomes it.

    It serves databases whose runtime is this client's: after an upgrade the service is to be restarted.

    Raises:
        ServerError: it cannot be started.
    """
    named = {
        "venv": options.venv,
        "engine_dir": options.folder,
        "engine_memory_mb": None if options.memory_mb is None else str(options.memory_mb),
    }
    content = Content()
    settings = {name: value for name, value in named.items() if value is not None}
    try:
        return run_service(settings, content.runtime_digest, content.modules)
    except UdfError as err:
        raise ServerError(err.message, err.hint or "") from err
