"""Whether a venv is safe to import from: nobody but root and the server's user may decide what runs in a backend."""

from __future__ import annotations

import os
import pwd
import stat
from typing import Iterator, Optional

WRITABLE_BY_ALL, WRITABLE_BY_GROUP = stat.S_IWOTH, stat.S_IWGRP


def site_packages(venv: str, version: str) -> str:
    """Return the site-packages folder of a venv for a version of Python, for example 3.11."""
    return os.path.join(venv, "lib", "python" + version, "site-packages")


def why_unsafe(venv: str, version: str, uid: int, gid: int) -> Optional[str]:
    """Return what is wrong, as a clause that names the path; None where the venv is safe.

    The folders above it count, because whoever may rename one of them may put another venv in its place. Within
    site-packages the packages' own folders and files are looked at, not what lies deeper: pip makes all of it alike.

    Args:
        uid, gid: of the server's user.
    """
    top = os.path.realpath(venv)
    for path in _above(top):
        wrong = _why(path, uid, None)
        if wrong:
            return wrong
    for path in _inside(top, version):
        wrong = _why(path, uid, gid)
        if wrong:
            return wrong
    return None


def _above(path: str) -> Iterator[str]:
    above = os.path.dirname(path)
    if above != path:
        yield from _above(above)
        yield above


def _inside(top: str, version: str) -> Iterator[str]:
    yield top
    yield from _entries(top)
    # a link to the interpreter, which the trial starts
    yield os.path.join(top, "bin", "python")
    yield os.path.join(top, "lib", "python" + version)
    packages = site_packages(top, version)
    yield packages
    yield from _entries(packages)


def _entries(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        yield os.path.join(folder, name)


def _why(path: str, uid: int, gid: Optional[int]) -> Optional[str]:
    """Return what is wrong with a path; `gid` None: its group does not matter (/usr/local is its group's on Debian)."""
    try:
        status = os.stat(path)
    except OSError:  # a link to nowhere imports nothing
        return None
    # in a sticky folder such as /tmp nobody can rename what belongs to another
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_uid not in (0, uid):
        return "%s belongs to %s" % (path, _name(status.st_uid))
    if status.st_mode & WRITABLE_BY_ALL and not (sticky and gid is None):
        return "everybody may write %s" % path
    if gid is not None and status.st_mode & WRITABLE_BY_GROUP and status.st_gid not in (0, gid):
        return "group %d may write %s" % (status.st_gid, path)
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "user id %d" % uid
