"""The operating system's user under whom the server runs, and the folders that are made for it."""

from __future__ import annotations

import fcntl
import functools
import locale
import os
import pwd
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from dbinfer.base.errors import ServerError
from dbinfer.base.progress import Say
from dbinfer.database.state import Home
from dbinfer_udf.host.own_python import instructions

SYSTEM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
REACH = 'for p in "$@"; do [ -x "$p" ] || { printf %s "$p"; exit 1; }; done'


@dataclass(frozen=True)
class Account:
    """A user; `switch` says that we are root and become this user to run things."""

    name: str
    uid: int
    gid: int
    home: str
    switch: bool

    def run(self, args: list[str], timeout: float | None = None) -> subprocess.CompletedProcess[str]:
        """Run a command as this user, in / with a clean environment; the caller checks the exit status."""
        return subprocess.run(
            args,
            # The caller's folder may be closed to this user, and PostgreSQL's programs want to return to it
            cwd="/",
            # The caller's PGDATA, PGPORT and the like would steer what initdb and pg_ctl do
            env={"PATH": SYSTEM_PATH, "HOME": self.home, "USER": self.name, "LC_ALL": utf8_locale()}
            | instructions(),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=timeout,
            user=self.uid if self.switch else None,
            group=self.gid if self.switch else None,
            extra_groups=os.getgrouplist(self.name, self.gid) if self.switch else None,
        )

    def own_folder(self, folder: Path, mode: int) -> None:
        """Make a folder of this user; refuse one that another user put there.

        Raises:
            ServerError: the path is a link, a file, or a folder of another user.
        """
        # Links first: exists, chown and chmod would follow them anywhere
        if folder.is_symlink() or (folder.exists() and not folder.is_dir()):
            raise ServerError(f"{folder} exists but is not a folder", "Remove it, then try again.")
        if not folder.exists():
            folder.mkdir(mode=0o700)
            if self.switch:
                os.chown(folder, self.uid, self.gid)
        if folder.stat().st_uid != self.uid:
            raise ServerError(
                f"the folder {folder} belongs to {owner(folder)}, but the server runs as {self.name}",
                "Remove it, or choose another state folder with DBINFER_HOME.",
            )
        # Not by mkdir, which loses what the umask takes; and only once it is certain whose folder it is
        folder.chmod(mode)

    def check_reach(self, path: Path) -> None:
        """Check that this user can enter `path` and every folder above it.

        Raises:
            ServerError: one of them is closed; the message names it.
        """
        folders = [*reversed(path.parents), path]
        # Tried as that user: to root every folder is open
        closed = self.run(["/bin/sh", "-c", REACH, "sh", *map(str, folders)])
        if closed.returncode == 0:
            return
        raise ServerError(
            f"the server's user {self.name!r} cannot enter the folder {closed.stdout}",
            f"Choose another folder (DBINFER_HOME, --venv), or open this one: chmod o+x '{closed.stdout}'",
        )


def owner(path: Path) -> str:
    """Return the name of a file's owner, or the number when it has no name here (as in containers)."""
    try:
        return path.owner()
    except KeyError:
        return f"user id {path.stat().st_uid}"


def server_account() -> Account:
    """Return the user under whom the server runs.

    Raises:
        ServerError: we are root and there is no user named postgres.
    """
    root = os.geteuid() == 0
    try:
        entry = pwd.getpwnam("postgres") if root else pwd.getpwuid(os.geteuid())
    except KeyError as err:
        raise ServerError(
            "PostgreSQL refuses to run as root, and there is no user named postgres"
            if root
            else f"the user id {os.geteuid()} has no entry in the user database",
            "Create the user (apt-get install postgresql does that), or run dbinfer as an ordinary user."
            if root
            else "Add an entry with useradd.",
        ) from err
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, root)


def host_account(name: str | None) -> Account:
    """Return the user under whom a server of this host runs.

    Args:
        name: None: gpadmin or postgres, if we are root; else our own.

    Raises:
        ServerError: there is no such user, or only root could try things as that one.
    """
    root = os.geteuid() == 0
    if name is None and not root:
        return server_account()
    names = [name] if name else ["gpadmin", "postgres"]
    for one in names:
        with suppress(KeyError):
            entry = pwd.getpwnam(one)
            break
    else:
        raise ServerError(
            f"this host has no user named {' or '.join(names)}", "Name the server's user: --user NAME"
        )
    if not root and entry.pw_uid != os.geteuid():
        raise ServerError(
            f"only root can try things as {entry.pw_name}", f"Run this as root or as {entry.pw_name}."
        )
    return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, entry.pw_dir, root)


@functools.cache
def utf8_locale() -> str:
    """Return C.UTF-8 where the system has it, else C: one sort order everywhere and English messages."""
    before = locale.setlocale(locale.LC_CTYPE)
    try:
        # Only setlocale knows whether a locale is there; what it changes is put back
        locale.setlocale(locale.LC_CTYPE, "C.UTF-8")
    except locale.Error:
        return "C"
    finally:
        locale.setlocale(locale.LC_CTYPE, before)
    return "C.UTF-8"


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
    # In /tmp another user may have taken that name; own_folder refuses it
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
