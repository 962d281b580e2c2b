"""What the coordinator's dispatcher leaves on disk for its reader: the runtime, and a ticket for each resolved model.

Greenplum runs parts of some plans in a second process of the coordinator (an "entry db" slice), in which replicated
tables have no rows. It finds here what the dispatcher of its session resolved, in a folder of the data directory:

    dbinfer_entry/runtime-<digest>         the modules, once
    dbinfer_entry/<session>/               one session's; gone when its process is gone and another one looks
        owner, digest, runtime             its process, and the runtime that it uses (a link)
        <16 hex digits of a token>         a ticket
        name-<digest>                      the same, found by user and model

The folder is 0700, so whoever can write there is the server's user. A ticket counts for the user who asked, while the
dispatcher is in the transaction that made it (found by name: in the statement).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import time
from typing import Any, Callable, Dict, List, Optional

from ..host import process
from . import resolve

FOLDER = "dbinfer_entry"
AGE = 3600  # seconds; younger files may still be in the making


def session_folder() -> str:
    """Return the folder of this process's session: the dispatcher and its readers share it."""
    # a server process works in its data directory, whose setting ordinary users may not read
    return os.path.join(os.getcwd(), FOLDER, str(process.session_number()))


class Handover:
    """The dispatcher's side. Failures are silent, because only statements with a reader process need the files.

    Args:
        modules: returns the source of each module of the runtime.
        digest: sha256 of the runtime.
    """

    def __init__(self, modules: Callable[[], Dict[str, str]], digest: str) -> None:
        self._modules = modules
        self._digest = digest
        self._folder = ""
        self._left: List[str] = []
        self._named = True

    def leave(self, token: str, ticket: Dict[str, Any]) -> None:
        """Leave a ticket: `caller`, `model`, `version_id` and `spec`; for its token, and for its user and model."""
        moment = {"pid": os.getpid(), **resolve.clocks()}
        with contextlib.suppress(OSError):
            if not self._folder:
                self._folder = _make_folder(self._modules(), self._digest)
            path = os.path.join(self._folder, _file_name(token))
            _write(path, json.dumps(dict(ticket, token=token, **moment)))
            self._left.append(path)
            if self._named:
                self._name(path, ticket)

    def _name(self, path: str, ticket: Dict[str, Any]) -> None:
        name = os.path.join(self._folder, _name(ticket["caller"], ticket["model"]))
        # the last ticket of this user and model counts, and link() replaces nothing
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)
        os.link(path, name)
        self._left.append(name)

    def forget_names(self) -> None:
        """Leave no names until the transaction ends: it has changed the registry, and a savepoint may undo that."""
        self._named = False
        self._remove([path for path in self._left if os.path.basename(path).startswith("name-")])

    def clear(self) -> None:
        """Remove what was left: another transaction has begun."""
        self._named = True
        self._remove(self._left)
        self._left = []

    def _remove(self, paths: List[str]) -> None:
        for path in paths:
            with contextlib.suppress(OSError):
                os.unlink(path)


def take_ticket(token: Optional[str], caller: int, model: Optional[str]) -> Optional[Dict[str, Any]]:
    """Return the ticket that the dispatcher of this session left for the token, or without one for user and model.

    None where there is none, or where it is another user's, another transaction's or another statement's.
    """
    try:
        with open(
            os.path.join(session_folder(), _file_name(token) if token else _name(caller, model))
        ) as source:
            # of the open file: another may have its name by now
            if os.fstat(source.fileno()).st_uid != os.geteuid():
                return None
            ticket: Dict[str, Any] = json.load(source)
    except (OSError, ValueError):
        return None
    # a name may mean another version in the next statement, a token may not
    moments = [ticket["transaction"]] if token else [ticket["transaction"], ticket["statement"]]
    # the whole token: the file is named after its random end alone
    right = ticket["caller"] == caller and token in (None, ticket["token"])
    return ticket if right and resolve.is_in(ticket["pid"], moments) else None


def _file_name(token: str) -> str:
    # dbinfer_private.token_version has checked the form of a token, so this is no path elsewhere
    return token.rpartition(":")[2]


def _name(caller: int, model: Optional[str]) -> str:
    # a digest, because the name of a model may contain what a file name cannot
    return "name-" + hashlib.sha256(json.dumps([caller, model]).encode()).hexdigest()[:32]


def _write(path: str, text: str) -> None:
    # O_EXCL: a file or a link that lies there already is not ours to write
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as target:
        target.write(text)


def _make_folder(modules: Dict[str, str], digest: str) -> str:
    """Make the session's folder with the runtime in it; complete at once, by a rename."""
    folder = session_folder()
    base, number = os.path.split(folder)
    new = os.path.join(base, "new-%s" % number)
    os.makedirs(base, mode=0o700, exist_ok=True)
    _sweep(base)
    # left by an older runtime of this session, or by another session of this number
    for old in (new, folder):
        shutil.rmtree(old, ignore_errors=True)
    os.mkdir(new, 0o700)
    _write(os.path.join(new, "owner"), "%d %s" % (os.getpid(), process.birth(os.getpid())))
    _write(os.path.join(new, "digest"), digest)
    _link_runtime(base, modules, digest, os.path.join(new, "runtime"))
    os.rename(new, folder)
    return folder


def _link_runtime(base: str, modules: Dict[str, str], digest: str, path: str) -> None:
    """Make a hard link to the runtime, so that st_nlink says whether any session still uses it."""
    try:
        os.link(_runtime(base, modules, digest), path)
    except FileNotFoundError:  # another process has just removed it, because nobody used it
        os.link(_runtime(base, modules, digest), path)


def _runtime(base: str, modules: Dict[str, str], digest: str) -> str:
    path = os.path.join(base, "runtime-" + digest)
    if not os.path.exists(path):
        # under a name of its own: several dispatchers may come at once
        new = "%s.%d" % (path, os.getpid())
        _write(new, json.dumps(modules))
        os.rename(new, path)
    return path


def remove_left() -> None:
    """Remove what ended sessions have left, and the folder if nothing else is in it."""
    base = os.path.dirname(session_folder())
    with contextlib.suppress(OSError):
        # twice: a runtime is used as long as the folder of a session is there
        for _ in range(2):
            _sweep(base, 0)
        os.rmdir(base)


def _sweep(base: str, age: int = AGE) -> None:
    """Remove the folders of sessions whose process is gone, and runtimes that no session uses any more."""
    # errors are suppressed one by one, because another dispatcher may sweep at the same time
    for name in os.listdir(base):
        path = os.path.join(base, name)
        with contextlib.suppress(OSError):
            facts = os.stat(path)
            young = facts.st_ctime > time.time() - age
            if name.startswith("runtime-"):
                if facts.st_nlink == 1 and not young:
                    os.unlink(path)
            elif not _alive(path) and not (young and name.startswith("new-")):
                shutil.rmtree(path, ignore_errors=True)


def _alive(folder: str) -> bool:
    try:
        with open(os.path.join(folder, "owner")) as source:
            pid, born = source.read().split()
        return process.birth(int(pid)) == born
    except (OSError, ValueError):
        return False
