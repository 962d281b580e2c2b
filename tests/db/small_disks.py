"""Disks that refuse: one that is soon full, one whose files nobody may run or write."""

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
    disk = Path(tempfile.mkdtemp(prefix="disk-", dir=parent))
    try:
        _mount("-t", "tmpfs", "-o", f"size={megabytes}m,mode=0700,uid={owner}", "tmpfs", str(disk))
        try:
            yield disk
        finally:
            until(lambda: not _unmount(disk), f"{disk} is no longer busy")
    finally:
        disk.rmdir()


def enlarge(disk: Path) -> None:
    """Give a small disk a gigabyte: what a server still has to write there must not fail."""
    subprocess.run(["mount", "-o", "remount,size=1g", str(disk)], check=True)


@contextmanager
def denied(folder: Path, right: str) -> Iterator[None]:
    """Mount a folder over itself without a right: `noexec` or `ro`; skip where nothing can be mounted."""
    _mount("--bind", str(folder), str(folder))
    try:
        # what an engine or a session holds open stays so
        subprocess.run(["mount", "-o", f"remount,bind,{right}", str(folder)], check=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def _mount(*options: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("only root mounts")
    done = subprocess.run(["mount", *options], capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")


def _unmount(disk: Path) -> int:
    return subprocess.run(["umount", str(disk)], capture_output=True, check=False).returncode
