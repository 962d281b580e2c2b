"""Makes the folders of the embedded server, with their owners and modes, and locks them."""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from dbinfer.errors import ServerError
from dbinfer.server.account import Account, owner
from dbinfer.state.home import Home

Say = Callable[[str], None]
# Linux has room for 108 bytes, the final zero among them
SOCKET_PATH_LIMIT = 107
LONGEST_SOCKET_NAME = len("/.s.PGSQL.65535.lock")


def prepare(home: Home, account: Account) -> None:
    """Make the folders with their owners and modes, and check that the server's user can reach them.

    Raises:
        ServerError: the folder belongs to someone else, cannot be made, or is closed to the server's user.
    """
    try:
        # Before anything is made: nothing is left in a place where the server's user cannot go
        account.check_reach(next(folder for folder in home.path.parents if folder.is_dir()))
        home.path.mkdir(parents=True, exist_ok=True)
        if home.path.stat().st_uid != os.geteuid():
            raise ServerError(
                f"the state folder {home.path} belongs to another user ({owner(home.path)})",
                "Run dbinfer as that user, or choose a folder of your own with DBINFER_HOME.",
            )
        # The server's user must pass through root's folder; secrets in it have modes of their own
        home.path.chmod(0o755 if account.switch else 0o700)
        home.runtimes.mkdir(exist_ok=True, mode=0o755)
        # Again, because the umask takes bits away from what mkdir is told
        home.runtimes.chmod(0o755)
        account.own_folder(home.log.parent, 0o750)
        account.own_folder(home.run, 0o755)
    except OSError as err:
        raise ServerError(
            f"cannot create the state folder {home.path}: {err.strerror}",
            "Choose a folder that you can write to with DBINFER_HOME.",
        ) from err
    account.check_reach(home.path)


def socket_dir(home: Home, account: Account) -> Path:
    """Return the folder for the unix socket: home/run, or a short one when that is too long."""
    if len(os.fsencode(home.run)) + LONGEST_SOCKET_NAME <= SOCKET_PATH_LIMIT:
        return home.run
    base = Path("/run") if os.access("/run", os.W_OK) else Path("/tmp")
    short = base / home.mark
    # In /tmp anybody may have put something of that name; own_folder refuses it
    account.own_folder(short, 0o755 if account.switch else 0o700)
    return short


@contextmanager
def locked(home: Home, say: Say) -> Iterator[None]:
    """Hold the state folder's lock, so that two `up` or `down` never work at once; wait for the other."""
    with os.fdopen(os.open(home.path / "lock", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o600)) as handle:
        # one of an older version could be read, and so held, by everybody
        os.fchmod(handle.fileno(), 0o600)
        try:
            # flock, because the kernel releases it however this process ends
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say("another dbinfer command is starting or stopping this server; waiting for it.")
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def discard(folder: Path) -> None:
    """Remove a folder that an interrupted run left behind, if it is there."""
    if folder.exists():
        shutil.rmtree(folder)
