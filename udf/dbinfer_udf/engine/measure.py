"""What a model's processes take, and how many requests wait at its socket, as the kernel tells."""

from __future__ import annotations

import os
import socket
import struct
from typing import Any, List

NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, REQUEST = 4, 20, 1
SHOW_QUEUE, QUEUE, ANY_COOKIE = 0x10, 4, 0xFFFFFFFF
HEADER = struct.Struct("=IHHII")
ASKED = struct.Struct("=BBHIIIII")
ANSWER_BYTES = 16


def memory_of(pid: int) -> int:
    """Return the bytes of a process and its children, each page counted by its share; 0 where that is not known."""
    return sum(_share(one) for one in [pid, *_children(pid)])


def _share(pid: int) -> int:
    try:
        with open("/proc/%d/smaps_rollup" % pid) as rollup:
            return next((int(line.split()[1]) << 10 for line in rollup if line.startswith("Pss:")), 0)
    except OSError:
        return 0


def _children(pid: int) -> List[int]:
    try:
        with open("/proc/%d/task/%d/children" % (pid, pid)) as children:
            return [int(word) for word in children.read().split()]
    except OSError:
        return []


def queue_of(listener: Any) -> int:
    """Return how many connections wait to be accepted; 0 where the kernel does not say."""
    inode = os.fstat(listener.fileno()).st_ino
    body = ASKED.pack(socket.AF_UNIX, 0, 0, ANY_COOKIE, inode, SHOW_QUEUE, ANY_COOKIE, ANY_COOKIE)
    try:
        with socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_SOCK_DIAG) as asks:
            asks.settimeout(1.0)
            asks.send(HEADER.pack(HEADER.size + len(body), SOCK_DIAG_BY_FAMILY, REQUEST, 0, 0) + body)
            return _queue(asks.recv(4096)[HEADER.size + ANSWER_BYTES :])
    except OSError:
        return 0


def _queue(attributes: bytes) -> int:
    while len(attributes) >= 8:
        size, kind = struct.unpack_from("=HH", attributes)
        if kind == QUEUE:
            return int(struct.unpack_from("=I", attributes, 4)[0])
        attributes = attributes[max(4, (size + 3) & ~3) :]
    return 0
