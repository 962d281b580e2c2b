"""Keeps TensorFlow's servers off the public networks: they listen on one address, and that is checked.

TensorFlow's server binds every address of the host ([::]), whatever address its cluster names, and authenticates
nobody: whoever reaches the port runs operations in the process. No option changes that. So `bind` is replaced in the
tables by which TensorFlow's libraries call the C library (as a preloaded library would do it, without a compiler), and
after the start the kernel's table of sockets shows whether that worked.
"""

from __future__ import annotations

import ctypes
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import TrainError

Words = NDArray[np.uint64]
Prototype = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32, use_errno=True)
DYNAMIC = 2  # type of the program header that names the tables below
STRTAB, SYMTAB, JMPREL, PLTRELSZ = 5, 6, 23, 2
SYMBOL = 24  # bytes of a symbol
LISTENS = "0A"  # state of a socket in /proc/net/tcp
_kept: list[Any] = []  # functions that C calls must not be garbage collected


class _Header(ctypes.Structure):
    """A program header of a 64-bit ELF file."""

    _fields_ = (
        ("kind", ctypes.c_uint32),
        ("flags", ctypes.c_uint32),
        ("offset", ctypes.c_uint64),
        ("address", ctypes.c_uint64),
        ("physical", ctypes.c_uint64),
        ("file_size", ctypes.c_uint64),
        ("size", ctypes.c_uint64),
        ("align", ctypes.c_uint64),
    )


class _Library(ctypes.Structure):
    """What dl_iterate_phdr says of a loaded library."""

    _fields_ = (
        ("base", ctypes.c_uint64),
        ("name", ctypes.c_char_p),
        ("headers", ctypes.POINTER(_Header)),
        ("count", ctypes.c_uint16),
    )


def listen_only_on(address: str) -> None:
    """Make TensorFlow bind `address` wherever it asks for every address, from now on in this process."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.bind.argtypes = (ctypes.c_int, ctypes.c_void_p, ctypes.c_uint32)
    four = socket.inet_aton(address)

    def bind(handle: int, where: int, size: int) -> int:
        family = ctypes.c_uint16.from_address(where).value
        if family == socket.AF_INET and not any(ctypes.string_at(where + 4, 4)):
            ctypes.memmove(where + 4, four, 4)
        elif family == socket.AF_INET6 and not any(ctypes.string_at(where + 8, 16)):
            # An IPv4 address as IPv6 writes it: the socket is of that family
            ctypes.memmove(where + 8, b"\0" * 10 + b"\xff\xff" + four, 16)
        result: int = libc.bind(handle, where, size)
        return result

    replacement = Prototype(bind)
    _kept.append(replacement)
    pointer = ctypes.cast(replacement, ctypes.c_void_p).value
    for slot in [slot for base, dynamic in _libraries() for slot in _slots(base, dynamic)]:
        page = slot & ~(os.sysconf("SC_PAGESIZE") - 1)
        # Read and write; a library may have closed its table after it was loaded
        libc.mprotect(ctypes.c_void_p(page), ctypes.c_size_t(slot + 8 - page), 3)
        ctypes.c_uint64.from_address(slot).value = pointer or 0


def check_listening(address: str) -> None:
    """Raise TrainError where this process listens on any other address."""
    wrong = sorted({found for found in _listening() if found != address})
    if wrong:
        raise TrainError(
            f"a server of TensorFlow listens on {wrong[0]}, not only on {address}, and it authenticates nobody",
            "Use another strategy: this version of TensorFlow or of the system cannot be kept to one address.",
        )


def _libraries() -> list[tuple[int, int]]:
    """Return base and address of the dynamic section of each of TensorFlow's libraries."""
    found: list[tuple[int, int]] = []

    def note(library: Any, size: int, data: int) -> int:
        one = library.contents
        if b"tensorflow" in Path(os.fsdecode(one.name or b"")).name.encode():
            for header in one.headers[: one.count]:
                if header.kind == DYNAMIC:
                    found.append((one.base, one.base + header.address))
        return 0

    kind = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(_Library), ctypes.c_size_t, ctypes.c_void_p)
    ctypes.CDLL(None).dl_iterate_phdr(kind(note), None)
    return found


def _slots(base: int, dynamic: int) -> Iterator[int]:
    """Yield the memory addresses at which a library stores the address of `bind`."""
    entries: dict[int, int] = {}
    while tag := ctypes.c_uint64.from_address(dynamic).value:
        entries[tag] = ctypes.c_uint64.from_address(dynamic + 8).value
        dynamic += 16
    if not {STRTAB, SYMTAB, JMPREL, PLTRELSZ} <= set(entries):
        return
    relocations = _words(entries[JMPREL], entries[PLTRELSZ] // 8).reshape(-1, 3)
    for offset, info, _ in relocations:
        symbol = entries[SYMTAB] + int(info >> np.uint64(32)) * SYMBOL
        name = entries[STRTAB] + ctypes.c_uint32.from_address(symbol).value
        if ctypes.string_at(name, 5) == b"bind\0":
            yield base + int(offset)


def _words(address: int, count: int) -> Words:
    return np.ctypeslib.as_array((ctypes.c_uint64 * count).from_address(address))


def _listening() -> Iterator[str]:
    """Yield the addresses on which this process listens, IPv4 or [IPv6]."""
    own = {os.readlink(path) for path in Path("/proc/self/fd").iterdir() if path.is_symlink()}
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/self/net", table).read_text().splitlines()[1:]:
            fields = line.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in own:
                yield _text(fields[1].partition(":")[0])


def _text(digits: str) -> str:
    """Return an address that the kernel has written as hexadecimal words of 32 bits in the host's order."""
    words = [int(digits[start : start + 8], 16) for start in range(0, len(digits), 8)]
    raw = np.array(words, np.uint32).tobytes()
    if len(raw) == 4:
        return socket.inet_ntoa(raw)
    mapped = raw[:12] == b"\0" * 10 + b"\xff\xff"
    return socket.inet_ntoa(raw[12:]) if mapped else f"[{socket.inet_ntop(socket.AF_INET6, raw)}]"
