"""Runs a command, and ends it when the process that started this one ends for any reason: `python -I guard.py COMMAND`.

By themselves launchers go on: horovodrun trains to the last epoch, and the processes of a split network wait for each
other. The standard input is a pipe from the process that started this one; when the pipe ends, so does the command.
A file of its own, because it needs nothing of dbinfer and stays in memory for the whole training.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress

PATIENCE = 10.0  # seconds from SIGTERM to SIGKILL


def main(command: list[str]) -> int:
    """Return the exit status of the command, or minus the signal that ended it."""
    # Whoever ends the group by a signal waits for this process: it ends after the command
    signal.signal(signal.SIGTERM, lambda number, frame: None)
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    threading.Thread(target=_end_with_input, daemon=True).start()
    return process.wait()


def _end_with_input() -> None:
    while os.read(0, 4096):
        pass
    os.killpg(0, signal.SIGTERM)
    time.sleep(PATIENCE)
    os.killpg(0, signal.SIGKILL)


def _end_as(status: int) -> None:
    """End as the command did: with its exit status, or by the same signal."""
    if status < 0:
        with suppress(OSError):  # SIGKILL has no handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    os._exit(status)  # at once: the thread waits for the input


if __name__ == "__main__":
    _end_as(main(sys.argv[1:]))
