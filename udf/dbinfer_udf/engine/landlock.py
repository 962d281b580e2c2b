"""Landlock: what files this process and its children may open from now on; the kernel asks for no rights to ask."""

from __future__ import annotations

import ctypes
import os
import struct
from typing import Iterable

from .kernel import syscall

# The numbers are the same on all architectures
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG, PATH_BENEATH = 1, 1
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | TRUNCATE | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE
# What a version of the kernel's interface knows: rights to files, to TCP, and to what lies outside (sockets, signals)
FILE_RIGHTS = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 5: 1 << 16}
TCP_SINCE, TCP = 4, 3
SCOPE_SINCE, SCOPE = 6, 3


def version() -> int:
    """Return the version of the kernel's interface; 0 where it has none."""
    try:
        return syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(VERSION_FLAG))
    except OSError:
        return 0


def restrict(read: Iterable[str] = (), write: Iterable[str] = ()) -> int:
    """Allow these files and folders and no others, no TCP, and no signal to processes outside; return the version.

    It cannot be undone, only made stricter. OSError where the kernel refuses.

    Args:
        read: may be read and executed.
        write: may be written, too.
    """
    known = version()
    if not known:
        raise OSError(38, os.strerror(38))
    rights = max(bits for since, bits in FILE_RIGHTS.items() if since <= known) - 1
    attributes = struct.pack(
        "=QQQ", rights, TCP if known >= TCP_SINCE else 0, SCOPE if known >= SCOPE_SINCE else 0
    )
    size = 8 if known < TCP_SINCE else 16 if known < SCOPE_SINCE else 24
    ruleset = syscall(
        CREATE_RULESET, ctypes.c_char_p(attributes[:size]), ctypes.c_size_t(size), ctypes.c_uint(0)
    )
    try:
        for paths, allowed in ((read, READ), (write, WRITE)):
            for path in paths:
                _allow(ruleset, path, allowed & rights)
        syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)
    return known


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # what is not there needs no rule
        return
    try:
        if not os.path.isdir(path):
            allowed &= OF_FILES
        rule = ctypes.c_char_p(struct.pack("=Qi", allowed, target))
        syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(target)
