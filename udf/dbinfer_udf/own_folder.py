"""A folder that is this user's alone: the host cache, and where the engine's sockets lie."""

from __future__ import annotations

import os
import stat

from .errors import UdfError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Type


def require_own(folder: str, name: str, option: str, kind: Type[UdfError]) -> None:
    """Make a folder (mode 0700) where needed, and check that it is private to this user.

    Args:
        name: what it is, for an error.
        option: of `dbinfer install` that chooses another.
        kind: of the error.

    Raises:
        UdfError: it cannot be made; `foreign`: it belongs to somebody else or is open to others.
    """
    another = "hoose another folder: dbinfer install %s FOLDER" % option
    try:
        os.makedirs(folder, mode=0o700, exist_ok=True)
        found = os.lstat(folder)  # not stat: a link leads wherever its owner wants
    except OSError as err:
        why, hint, foreign = "cannot be made: %s" % err.strerror, "C" + another, False
    else:
        if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
            why = "belongs to user id %d, or is not a folder" % found.st_uid
            hint = "Remove it, or c" + another
            foreign = True
        elif found.st_mode & 0o077:
            why = "is open to others (mode %o)" % (found.st_mode & 0o777)
            hint, foreign = "Close it: chmod 700 %s" % folder, True
        else:
            return
    error = kind("%s %s %s" % (name, folder, why), hint=hint, public="%s %s" % (name, why))
    error.foreign = foreign
    raise error
