"""The processes of an engine, found in /proc by their titles and parents; the tests kill them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PATIENCE = 60.0


def title(pid: int) -> str:
    """Return what ps shows of a process; nothing where it has ended."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").strip("\0 ")
    return ""


def parent(pid: int) -> int:
    """Return the parent's pid; 0 where the process has ended."""
    with suppress(OSError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return 0


def busy(pid: int) -> bool:
    """Return whether a process is running on a core, or wants to."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "R"
    return False


def sockets(pid: int) -> int:
    """Return how many sockets a process has open."""
    return sum(link.is_socket() for link in Path(f"/proc/{pid}/fd").iterdir())


def threads(pid: int) -> dict[int, dict[str, str]]:
    """Return what /proc says of each thread, but of those that end meanwhile."""
    found = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        with suppress(FileNotFoundError, ProcessLookupError):
            lines = (task / "status").read_text().splitlines()
            found[int(task.name)] = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    return found


def below(top: int) -> list[int]:
    """Return the pids of a process and all its descendants, the process first."""
    every = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    children: dict[int, list[int]] = {}
    for pid in every:
        children.setdefault(parent(pid), []).append(pid)
    found = [top]
    for pid in found:
        found += children.get(pid, [])
    return found


def workers(top: int, model: str) -> list[int]:
    """Return the pids of the workers of a model in the engine of this supervisor."""
    return [pid for pid in below(top) if title(pid).startswith(f"dbinfer-worker: {model}@")]


def scoring(top: int, model: str) -> list[int]:
    """Return the pids of those workers that stay busy: one that ends a row now is not scoring the next."""
    found = workers(top, model)
    for _ in range(3):
        time.sleep(0.02)
        found = [pid for pid in found if busy(pid)]
    return found


def until(condition: Callable[[], object], what: str) -> None:
    """Wait until it holds."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, f"waited in vain until {what}"
        time.sleep(0.01)


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    """Send a signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


@contextmanager
def meanwhile(act: Callable[[], object]) -> Iterator[None]:
    """Do something in a thread beside the statement that the block runs."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            act()
        except BaseException as err:
            failed.append(err)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    assert failed == []
