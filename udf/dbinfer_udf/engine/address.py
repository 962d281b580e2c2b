"""Where the engine's sockets, lock and log lie: a folder that is this user's alone."""

from __future__ import annotations

import os

from ..own_folder import require_own
from .errors import PUBLIC, EngineError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Dict, List

SERVICE_FOLDER = "/run/dbinfer-engine"
# The kernel's bound for the path of a socket is 107 bytes; our longest name has 30
MOST_BYTES = 70


class Address:
    """The place of one engine: the folder, and twelve digits of its runtime's digest, which keep versions apart."""

    def __init__(self, folder: str, digest: str) -> None:
        self.folder = folder
        self.digest = digest

    @property
    def control(self) -> str:
        """Return the path of the supervisor's socket."""
        return os.path.join(self.folder, "engine-%s.sock" % self.digest)

    @property
    def lock(self) -> str:
        """Return the path of the lock that the engine holds while it runs."""
        return os.path.join(self.folder, "lock-" + self.digest)

    @property
    def log(self) -> str:
        """Return the path of the log, where the server has no better place."""
        return os.path.join(self.folder, "engine.log")

    def model(self, key: str) -> str:
        """Return the path of a model's socket."""
        return os.path.join(self.folder, "m-%s.sock" % key[:16])


def find(settings: Dict[str, str], digest: str, make: bool = True) -> Address:
    """Return the place of the engine of this runtime; the folder is made where it is not there.

    Raises:
        EngineError: the folder cannot be made, belongs to somebody else, or is open to others.
    """
    folder = settings.get("engine_dir") or _default()
    if len(folder.encode()) > MOST_BYTES or not folder.startswith("/"):
        raise EngineError(
            "the engine's folder %s is no absolute path of at most %d bytes" % (folder, MOST_BYTES),
            hint="Choose another folder: dbinfer install --engine-dir FOLDER",
            public=PUBLIC,
        )
    if make or os.path.lexists(folder):
        require_own(folder, "the engine's folder", "--engine-dir", EngineError)
    return Address(folder, digest[:12])


def _default() -> str:
    try:
        if os.lstat(SERVICE_FOLDER).st_uid == os.geteuid():
            return SERVICE_FOLDER
    except OSError:
        pass
    return "/tmp/dbinfer-%d" % os.geteuid()


def engines(folder: Address) -> List[Address]:
    """Return the places of all engines that have a socket in this folder."""
    import glob

    paths = glob.glob(os.path.join(glob.escape(folder.folder), "engine-*.sock"))
    return [Address(folder.folder, os.path.basename(path)[7:-5]) for path in sorted(paths)]
