"""Which guards this kernel has: files closed by Landlock, system calls by a filter; and takes them on."""

from __future__ import annotations

import ctypes
import os
import struct
import sys
from typing import Any, Dict, List, Sequence

from . import kernel, landlock, seccomp
from .calls import CAPGET, CAPSET

CAPABILITIES = 0x20080522  # of version 3 of the two calls
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root reads and writes files of others, which Landlock bounds
OF_FILES = 1 << 1 | 1 << 2
# What alone of a machine an import reads, and OpenVINO to know the cores, the memory and itself
SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime")
# Of /proc the process itself alone: others show their command lines there
KERNEL = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/dev/urandom", "/dev/zero"),
)


def guards() -> Dict[str, Any]:
    """Return the kernel, the version of its Landlock's interface (0: none), and whether it filters system calls."""
    system = os.uname()
    named = "%s %s" % (system.sysname, system.release)
    return {"landlock": landlock.version(), "seccomp": seccomp.known(), "kernel": named}


def missing(found: Dict[str, Any]) -> str:
    """Return a sentence for the log, nothing where none is missing."""
    names = {"landlock": "Landlock", "seccomp": "filter of system calls"}
    lacking = ["no " + text for name, text in names.items() if not found[name]]
    return "The kernel has %s (docs/security.md)." % " and ".join(lacking) if lacking else ""


def shut_in(read: Sequence[str], write: Sequence[str]) -> List[str]:
    """Take from this process all rights but to compute, and to read and write these; return what guards are missing.

    Call it before anything has started a thread: Landlock holds for this one and those that it starts.
    """
    if sys.platform != "linux":
        return ["landlock", "seccomp"]
    lacking = []
    kernel.no_new_privileges()
    try:
        landlock.restrict(read, [*write, "/dev/null"])
    except OSError:
        lacking.append("landlock")
    try:
        _drop_capabilities()
        seccomp.forbid_apart(os.getpid())
    except OSError:
        lacking.append("seccomp")
    return lacking


def _drop_capabilities() -> None:
    """Be no administrator: as root, too, this process sets no clock and signals nobody of another user."""
    header, data = struct.pack("=Ii", CAPABILITIES, 0), ctypes.create_string_buffer(24)
    kernel.syscall(CAPGET[seccomp.column()], ctypes.c_char_p(header), data)
    permitted = struct.unpack("=6I", data.raw)[1] & OF_FILES
    kept = struct.pack("=6I", permitted, permitted, 0, 0, 0, 0)
    kernel.syscall(CAPSET[seccomp.column()], ctypes.c_char_p(header), ctypes.c_char_p(kept))
