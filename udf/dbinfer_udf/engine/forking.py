"""Has a zygote fork the host of a model, with all that the host needs."""

from __future__ import annotations

import json
import os
import socket
from typing import Any, Dict

from . import kernel


def fork_host(supervisor: Any, wanted: Dict[str, Any], listener: socket.socket, memory: int) -> socket.socket:
    """Return the channel to a new host; its end is the host's end.

    Args:
        wanted: what the model was opened with.
        listener: the model's socket.
        memory: descriptor of the workers' slots.

    Raises:
        OSError: no process, or no descriptor, can be had.
    """
    shelf = supervisor.shelf
    # not more than there are: a setting may ask for more threads than the host has cores
    each = min(wanted["threads"], supervisor.cores)
    told = dict(wanted, semaphore=shelf.semaphore, tokens=each)
    call = kernel.memory_file("dbinfer-call", json.dumps(told).encode())
    try:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            fds = [theirs.fileno(), listener.fileno(), memory, call]
            shelf.zygotes.fork(wanted["spec"]["settings"], fds)
    finally:
        os.close(call)
    ours.setblocking(False)
    # the kernel says who sends: the host's number is not taken from its own words
    ours.setsockopt(socket.SOL_SOCKET, socket.SO_PASSCRED, 1)
    return ours
