"""Files of the host cache that are still being written: under a temporary name, which says whose they are."""

from __future__ import annotations

import contextlib
import glob
import os
import shutil
import tempfile
from typing import Tuple

SUFFIX = ".tmp"


def temporary_file(folder: str) -> Tuple[int, str]:
    """Make a file that is to be renamed when it is complete; return its descriptor and path."""
    return tempfile.mkstemp(dir=folder, prefix="%d-" % os.getpid(), suffix=SUFFIX)


def temporary_folder(folder: str) -> str:
    """Make a folder that is to be renamed when it is complete."""
    return tempfile.mkdtemp(dir=folder, prefix="%d-" % os.getpid(), suffix=SUFFIX)


def write(path: str, text: str) -> None:
    """Write a file that no reader sees half; OSError where that cannot be."""
    fd, temporary = temporary_file(os.path.dirname(path))
    try:
        with os.fdopen(fd, "w") as target:
            target.write(text)
        os.rename(temporary, path)
    except OSError:
        os.unlink(temporary)
        raise


def sweep(cache: str) -> None:
    """Remove what backends left half written that were killed, or ended after a cancelled statement."""
    removed = "[0-9]*-*" + SUFFIX  # a model's folder on its way out; only ours have such names
    for pattern in (removed, os.path.join("*", "*" + SUFFIX), os.path.join("*", "blobs", "*" + SUFFIX)):
        for path in glob.glob(os.path.join(glob.escape(cache), pattern)):
            if not _owner_lives(os.path.basename(path)):
                # rmtree removes folders only, unlink files only
                shutil.rmtree(path, ignore_errors=True)
                with contextlib.suppress(OSError):
                    os.unlink(path)


def _owner_lives(name: str) -> bool:
    owner = name.partition("-")[0]
    # another process may have the pid by now, which only keeps the file longer
    return owner.isdigit() and os.path.exists("/proc/" + owner)
