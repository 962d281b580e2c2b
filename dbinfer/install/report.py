"""What install is told, and what install, upgrade and uninstall tell."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields

from dbinfer.backends import Check
from dbinfer.errors import UsageError
from dbinfer.isolation import check_isolation
from dbinfer.report import Report


@dataclass(frozen=True)
class InstallOptions:
    """Settings of the database; what is None stays as it is.

    Attributes:
        venv: folder of the Python packages that backends import, the same on every host.
        cache_dir: folder on every host for model files; None: inside the data directory.
        cache_limit_mb: of that folder; beyond it the models that were not used for longest go.
        threads: of each backend: auto or a number.
        max_models: that one backend keeps loaded.
        max_image_bytes, max_image_pixels: larger images are refused.
        max_compile_seconds, max_inference_seconds, max_model_mb: models that take more when they are tried are refused.
        min_free_mb: memory of the host that must stay free; a model that would take it is not loaded.
        isolation: auto, always or never: whether the host's engine runs models, outside of the database's processes.
        engine_dir: folder of the engine's sockets on every host; None: one of the server's user below /tmp.
        engine_idle_seconds: after which an engine that nobody asks ends.
        engine_memory_mb: of all models of an engine; beyond it the model that was not used for longest goes.
        usage: on or off: whether rows are counted for dbinfer.usage.
        adopt_role: use a role dbinfer_admin that dbinfer has not made.
    """

    venv: str | None = None
    cache_dir: str | None = None
    cache_limit_mb: int | None = None
    threads: str | None = None
    max_models: int | None = None
    max_image_bytes: int | None = None
    max_image_pixels: int | None = None
    max_compile_seconds: float | None = None
    max_inference_seconds: float | None = None
    max_model_mb: int | None = None
    min_free_mb: int | None = None
    isolation: str | None = None
    engine_dir: str | None = None
    engine_idle_seconds: int | None = None
    engine_memory_mb: int | None = None
    usage: str | None = None
    adopt_role: bool = False

    def settings(self) -> dict[str, str]:
        """Return those that are named, as the database stores them.

        Raises:
            UsageError: `threads` is neither auto nor a positive number, `isolation` or `usage` none of its words,
                or the path of a folder not absolute.
        """
        if self.threads is not None and not re.fullmatch("auto|0*[1-9][0-9]*", self.threads):
            raise UsageError(f"--threads is {self.threads!r}, but must be 'auto' or a positive number")
        check_isolation(self.isolation)
        if self.usage not in (None, "on", "off"):
            raise UsageError(f"--usage is {self.usage!r}, but must be on or off")
        for option, folder in (("--venv", self.venv), ("--cache-dir", self.cache_dir)):
            # a backend works in its data directory, and the trial of a model elsewhere
            if folder and not folder.startswith("/"):
                raise UsageError(
                    f"{option} is {folder!r}, but must be an absolute path, the same on every host"
                )
        # a backend's working directory is the data directory, and a socket's name has room for about 100 bytes
        if self.engine_dir is not None and not re.fullmatch(rb"/[^\0\n]{0,69}", self.engine_dir.encode()):
            raise UsageError(
                f"--engine-dir is {self.engine_dir!r}, but must be an absolute path of at most 70 bytes"
            )
        named = {
            field.name: getattr(self, field.name) for field in fields(self) if field.name != "adopt_role"
        }
        return {name: str(value) for name, value in named.items() if value is not None}


@dataclass(frozen=True)
class UpgradeOptions:
    """What an upgrade may do beside the upgrade.

    Attributes:
        adopt_role: use a role dbinfer_admin that dbinfer has not made.
    """

    adopt_role: bool = False


@dataclass(frozen=True)
class InstallReport(Report):
    """What install, upgrade or uninstall did.

    Attributes:
        changed: whether anything in the database is different now.
        message: one sentence for the user.
        version: of dbinfer in the database afterwards; None without it.
        administrators: roles that may deploy here, by their membership in dbinfer_admin.
        problems: what keeps backends from scoring, each with its cure; install looks for them.
    """

    derived = ("ok",)

    changed: bool
    message: str
    version: str | None
    administrators: tuple[str, ...] = ()
    problems: tuple[Check, ...] = ()

    @property
    def ok(self) -> bool:
        """Return whether every backend can score."""
        return not self.problems
