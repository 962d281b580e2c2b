"""What this process is: its user, segment, host and memory, read from the server itself without plpy."""

from __future__ import annotations

import ctypes
import os
import socket
from typing import Any, Callable, Optional


def server() -> Any:
    """Return the server's own symbols; calls keep Python's lock, because the server has one thread."""
    return ctypes.PyDLL(None)


def user_function() -> Callable[[], int]:
    """Return the server's GetUserId: the oid of the user whose rights count now."""
    function = server().GetUserId
    function.restype, function.argtypes = ctypes.c_uint32, []
    return function  # type: ignore[no-any-return]


def content_id() -> Optional[int]:
    """Return the content id of this Greenplum segment (-1: coordinator); None on PostgreSQL."""
    symbols = server()
    if not hasattr(symbols, "Gp_role"):
        return None
    option = symbols.GetConfigOption
    option.restype, option.argtypes = ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_bool, ctypes.c_bool]
    value = option(b"gp_contentid", True, False)
    return None if value is None else int(value)


def where() -> str:
    """Return host and segment of this process, for the DETAIL of an error."""
    content = content_id()
    host = "host %s, pid %d" % (socket.gethostname(), os.getpid())
    return host if content is None else "segment %d, %s" % (content, host)


def rss_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
