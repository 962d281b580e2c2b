"""Where the sockets, lock and log of the engine lie, and questions to its supervisor."""

from __future__ import annotations

import _socket
import os
import time

from ..errors import PUBLIC, EngineError
from ..host import protocol
from ..host.cache import require_own

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List

SERVICE_FOLDER = "/run/dbinfer-engine"
# The kernel's bound for the path of a socket is 107 bytes; our longest name has 30
MOST_BYTES = 70


class Address:
    """Where one engine lies: its folder, and twelve digits of its runtime's digest, which keep versions apart."""

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
        """Return the path of the log; it is used where the server collects no logs."""
        return os.path.join(self.folder, "engine.log")

    def model(self, key: str) -> str:
        """Return the path of a model's socket."""
        return os.path.join(self.folder, "m-%s.sock" % key[:16])


def find(settings: Dict[str, str], digest: str, make: bool = True) -> Address:
    """Return where the engine of this runtime lies; the folder is made if it is missing.

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


def require_writable(place: Address) -> None:
    """Raise EngineError where no engine can be started, because the host lets nobody write to its folder."""
    if os.path.isdir(place.folder) and not os.access(place.folder, os.W_OK):
        raise EngineError(
            "the engine's folder %s cannot be written" % place.folder,
            hint="Choose another folder: dbinfer install --engine-dir FOLDER",
            public=PUBLIC,
        )


def engines(folder: Address) -> List[Address]:
    """Return where all engines with a socket in this folder lie."""
    import glob

    paths = glob.glob(os.path.join(glob.escape(folder.folder), "engine-*.sock"))
    return [Address(folder.folder, os.path.basename(path)[7:-5]) for path in sorted(paths)]


class GoneError(Exception):
    """No engine listens there."""


def call(path: str, message: Dict[str, Any], seconds: float = protocol.FOREVER) -> Dict[str, Any]:
    """Return a supervisor's answer.

    Args:
        path: of its socket.
        seconds: to wait at most.

    Raises:
        GoneError: nobody listens there, or it ended before it answered.
        EngineError: it belongs to another user, or says nothing.
        CancelledError: the statement was cancelled meanwhile.
    """
    until = time.monotonic() + seconds
    connection = protocol.open_socket()
    try:
        protocol.connect(connection, path, until)
        protocol.send(connection, [protocol.frame(message)], until)
        data, found = b"", None
        while found is None:
            data += protocol.receive(connection, 1 << 16, until)
            found = protocol.unframe(data)
        return found
    except (OSError, protocol.ClosedError) as err:
        raise GoneError(str(err)) from err
    finally:
        connection.close()


def tell(path: str, message: Dict[str, Any]) -> None:
    """Send a message that needs no answer; if it cannot be sent at once, drop it."""
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.connect(path)
        connection.send(protocol.frame(message), _socket.MSG_NOSIGNAL)
    except OSError:
        pass
    finally:
        connection.close()
