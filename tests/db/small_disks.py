"""A disk that is soon full, for those who write to one."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from engine_processes import until


@contextmanager
def small_disk(megabytes: int, owner: int, parent: Path | None = None) -> Iterator[Path]:
    """Give the folder of a disk of its own, which belongs to the user `owner`; skip where none can be mounted."""
    if os.geteuid() != 0:
        pytest.skip("only root mounts a small disk (tmpfs)")
    disk = Path(tempfile.mkdtemp(prefix="disk-", dir=parent))
    options = f"size={megabytes}m,mode=0700,uid={owner}"
    mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(disk)]
    done = subprocess.run(mount, capture_output=True, text=True, check=False)
    if done.returncode:
        disk.rmdir()
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    try:
        yield disk
    finally:
        until(lambda: not _unmount(disk), f"{disk} is no longer busy")
        disk.rmdir()


def _unmount(disk: Path) -> int:
    return subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode
