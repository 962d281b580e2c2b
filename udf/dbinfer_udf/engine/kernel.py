"""The kernel's calls that Python has no names for, by ctypes."""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
from typing import Any, List

PR_SET_PDEATHSIG = 1
PR_SET_NAME = 15
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
# Fields of /proc/self/stat, counted from 0: where the arguments of the command line lie in memory
ARG_START, ARG_END = 47, 48

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call; OSError where the kernel refuses it."""
    return _checked(libc.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, *arguments: Any) -> None:
    """Set an attribute of this process; OSError where the kernel refuses it."""
    values = [*arguments, 0, 0, 0, 0][:4]
    _checked(libc.prctl(option, *[ctypes.c_ulong(v) if isinstance(v, int) else v for v in values]))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def die_with(parent: int) -> None:
    """End this process when its parent ends, and at once where that has happened already."""
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def threads() -> int:
    """Return how many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def hung_up(fd: int) -> bool:
    """Return whether the other side of a socket has closed, whatever waits to be read before."""
    poll = select.poll()
    poll.register(fd, 0)
    # asked for or not, the kernel tells it
    return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))


def memory_file(name: str, data: bytes) -> int:
    """Return the descriptor of a file in memory that holds this, to be read from its beginning."""
    fd = os.memfd_create(name)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def no_new_privileges() -> None:
    """Let nothing that this process starts gain rights; Landlock and seccomp want this, too."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def set_title(name: str, text: str = "") -> None:
    """Show `name: text` in ps: as the process's name (15 bytes) and over its command line."""
    with contextlib.suppress(OSError):
        prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))
    # only a title: where /proc is not there, the process is called Python
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat") as stat:
            text_of = stat.read()
        # behind the last parenthesis: the name before it may hold spaces and parentheses
        fields = ["", "", *text_of.rpartition(")")[2].split()]
        start, end = int(fields[ARG_START]), int(fields[ARG_END])
        title = ("%s: %s" % (name, text) if text else name).encode()[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, len(title))


def more_likely_victim() -> None:
    """Ask the kernel to end this process before a backend where memory runs out: here it costs a row, there all."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as score:
        if int(score.read()) < 500:
            score.write("500")


def close_all_but(kept: List[int]) -> None:
    """Close all descriptors but these and the standard ones."""
    low = 3
    for fd in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        # an empty range would be taken for all that follow
        if low < fd:
            os.closerange(low, fd)
        low = max(low, fd + 1)
