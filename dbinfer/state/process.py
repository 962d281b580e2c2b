"""Which processes of the embedded server are alive; the cluster's name stands in their titles."""

from __future__ import annotations

import os
from pathlib import Path

from dbinfer.state.home import Home

PROC = Path("/proc")


def postmaster(home: Home) -> int | None:
    """Return the process id of the running server; None when there is none (postmaster.pid may be stale)."""
    pid = recorded_pid(home)
    return pid if pid is not None and _is_postmaster(home, pid) else None


def recorded_pid(home: Home) -> int | None:
    """Return the process id that postmaster.pid names, whether or not that process is ours."""
    try:
        return int((home.data / "postmaster.pid").read_text().split("\n", 1)[0])
    except (OSError, ValueError):
        return None


def _is_postmaster(home: Home, pid: int) -> bool:
    # macOS has no /proc: any process of that number has to do
    if not PROC.joinpath("self").exists():
        return _alive(pid)
    words = _cmdline(pid)
    # After a crash or a reboot the number may belong to another program; ours was started with -D DATA
    return bool(words) and Path(words[0]).name in ("postgres", "postmaster") and str(home.data) in words


def servers() -> list[Home] | None:
    """Return the state folders of all embedded servers that run on this machine; None where that is unknown."""
    if not PROC.joinpath("self").exists():
        return None
    found = (_home(_cmdline(int(entry.name))) for entry in PROC.glob("[0-9]*"))
    return [home for home in found if home is not None]


def _home(words: list[str]) -> Home | None:
    """Return the state folder of a postmaster with this command line, if it is an embedded one."""
    if Path(words[0] if words else "").name not in ("postgres", "postmaster"):
        return None
    homes = [Home(Path(word).parent) for word in words[1:] if word.startswith("/") and word.endswith("/data")]
    return next((home for home in homes if home.state.exists()), None)


def _alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    # It lives, and belongs to somebody else
    return True


def children(home: Home) -> list[int]:
    """Return the server's sessions, parallel workers and helpers, orphaned ones too; not the postmaster."""
    title = f"postgres: {home.mark}: "
    # By title, not by parent: the orphans of a killed server have another one
    pids = (int(entry.name) for entry in PROC.glob("[0-9]*"))
    return sorted(pid for pid in pids if " ".join(_cmdline(pid)).startswith(title))


def _cmdline(pid: int) -> list[str]:
    try:
        return (PROC / str(pid) / "cmdline").read_text(errors="replace").rstrip("\0").split("\0")
    except OSError:
        # It has ended since it was listed
        return []
