"""Folders that other users may enter, for the tests: pytest's own are this user's alone, and stay so."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def common_folder(kind: str) -> Iterator[Path]:
    """Make a folder that everybody may enter, and remove it at the end.

    To open one of pytest's means to open those above it, too, and with `--basetemp=/tmp/x` that is /tmp itself.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"dbinfer-{kind}-", dir="/var/tmp"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        unmount_below(folder)
        shutil.rmtree(folder)


def unmount_below(folder: Path) -> None:
    """Take away what is mounted in a folder, also what is busy: it goes when the last who uses it has ended."""
    places = [line.split()[1] for line in Path("/proc/mounts").read_text().splitlines()]
    for place in places:
        if Path(place).is_relative_to(folder):
            subprocess.run(["umount", "--lazy", place], capture_output=True, check=False)
