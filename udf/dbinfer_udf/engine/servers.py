"""The database servers that an engine works for: when the last of them has ended, the engine ends."""

from __future__ import annotations

import contextlib
import os
import select
from typing import Dict, Tuple

from ..process import birth


class Servers:
    """The servers that were named, each by pid and birth."""

    def __init__(self) -> None:
        # pid: its birth, and a descriptor that becomes readable when it ends (-1: the kernel or the sandbox has none)
        self.known: Dict[int, Tuple[str, int]] = {}

    def add(self, pid: int) -> None:
        """Watch one more server; nothing where it is watched or has ended."""
        born = birth(pid)
        if not born or self.known.get(pid, ("", 0))[0] == born:
            return
        self._drop(pid)
        fd = -1
        with contextlib.suppress(OSError, AttributeError):
            fd = os.pidfd_open(pid)
        self.known[pid] = born, fd

    def fds(self) -> Dict[int, int]:
        """Return the descriptors to wait for, and whose they are."""
        return {fd: pid for pid, (_, fd) in self.known.items() if fd >= 0}

    def look(self) -> bool:
        """Forget those that have ended; return whether any lives."""
        for pid, (born, fd) in list(self.known.items()):
            ended = bool(select.select([fd], [], [], 0)[0]) if fd >= 0 else birth(pid) != born
            if ended:
                self._drop(pid)
        return bool(self.known)

    def _drop(self, pid: int) -> None:
        _, fd = self.known.pop(pid, ("", -1))
        if fd >= 0:
            os.close(fd)
