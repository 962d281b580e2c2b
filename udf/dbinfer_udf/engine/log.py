"""The engine's log: English sentences with time stamps, in a file that is renamed at a bound."""

from __future__ import annotations

import contextlib
import os
import time

from .wire import text as harmless

MOST_BYTES = 1 << 20  # then the file becomes FILE.1, and what was FILE.1 goes
MOST_LINE = 2000


class Log:
    """Writes lines to a file; where that is not possible (a full disk, say), it does without.

    Args:
        path: of the file; "" for none.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._rest = b""

    def say(self, text: str) -> None:
        """Write one sentence."""
        self._write("%s  %s\n" % (time.strftime("%Y-%m-%d %H:%M:%S %Z"), harmless(text[:MOST_LINE])))

    def take(self, block: bytes) -> None:
        """Take what a process of ours has printed, and write its whole lines."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        # what never ends a line is cut
        if len(self._rest) > MOST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                self.say(line.decode(errors="replace").rstrip())

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):
            if self.path:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                # opened for each line, because somebody may tidy up the folder meanwhile
                fd = os.open(self.path, flags, 0o600)
                try:
                    os.write(fd, line.encode(errors="replace"))
                    size = os.fstat(fd).st_size
                finally:
                    os.close(fd)
                if size > MOST_BYTES:
                    os.replace(self.path, self.path + ".1")
