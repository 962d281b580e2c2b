"""Makes the sockets at which the engine listens."""

from __future__ import annotations

import contextlib
import os
import socket

BACKLOG = 4096  # the kernel cuts it to net.core.somaxconn


def listen(path: str) -> socket.socket:
    """Return a socket that listens at a path; one that a killed engine left is removed."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    listener.bind(path)
    os.chmod(path, 0o600)
    listener.listen(BACKLOG)
    return listener
