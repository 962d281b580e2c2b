"""Folders of the tests for other users: open without opening others, and gone at the end, even with a disk in them."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from common_folders import common_folder


def test_everybody_may_enter_and_nothing_else_is_changed() -> None:
    before = Path("/var/tmp").stat().st_mode
    with common_folder("open") as folder:
        assert folder.stat().st_mode & 0o777 == 0o755
        (folder / "file").write_text("")
    assert not folder.exists()
    assert Path("/var/tmp").stat().st_mode == before


@pytest.mark.skipif(os.geteuid() != 0, reason="only root mounts a disk")
def test_a_disk_that_is_busy_does_not_keep_the_folder() -> None:
    with common_folder("busy") as folder:
        disk = folder / "disk"
        disk.mkdir()
        mount = ["mount", "-t", "tmpfs", "tmpfs", str(disk)]
        done = subprocess.run(mount, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"no disk can be mounted here: {done.stderr.strip()}")
        busy = (disk / "file").open("w")
    busy.close()
    assert not folder.exists()
