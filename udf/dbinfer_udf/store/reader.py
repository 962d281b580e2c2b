"""Images from stores, as a session reads them: files here, all else by processes that fetch several at a time."""

from __future__ import annotations

import os
import socket
import stat
import sys
import time
from collections import OrderedDict, deque
from typing import Any, Deque, Dict, Iterator, List, Optional, Tuple
from weakref import ReferenceType, WeakValueDictionary, ref

from .. import fastjson
from ..errors import CancelledError, EngineError, ImageError, StoreError, UdfError, UsageError
from ..host import interrupts, own_python, protocol
from .declared import (
    DEPTH,
    ETAG,
    HANDLE,
    MISSING,
    MOST_ETAG,
    NUMBERS,
    PORTS,
    Store,
    changed,
    declared,
    find,
    is_other,
    missing,
    require_path,
    shown,
    too_large,
)
from .kept import KeptImage, find_kept, keep

GRACE = 10.0  # seconds beyond a store's limit, for a process to start and to answer
TRIES = 2  # of an image whose process has ended
MOST_PAGE = 1 << 23  # bytes of the names of a folder that are told at once
MOST_FETCHING = 4  # processes that a session keeps: those of the stores that it used last
FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
HEXES = 64  # digits of SHA-256
RANDOM = 16  # bytes of a handle, which nobody can guess or make


class Pending:
    """An image that was asked for, and may not be there yet.

    Args:
        etag: the version that it must have, or `sha256:` and the digest; None where any will do.
        most: bytes that it may have.
    """

    def __init__(
        self, store: Store, path: str, etag: Optional[str], most: int, settings: Dict[str, str]
    ) -> None:
        self.store, self.path, self.etag, self.most = store, path, etag, most
        self._settings = settings
        self.reader: Optional[Reader] = None
        self.fetching: Optional[Fetching] = None
        # how often a process was asked for it
        self.tries = 0
        self.kept: Optional[KeptImage] = None
        self.data: Optional[bytes] = None
        self.error: Optional[UdfError] = None

    def result(self) -> bytes:
        """Return the image file.

        Raises:
            ImageError: there is none, it is another version or too large.
            StoreError: the store cannot be read.
            CancelledError: the statement was cancelled meanwhile.
        """
        if self.data is None and self.error is None:
            try:
                if self.store.scheme == "file":
                    self.data = self._read()
                else:
                    reader = self.reader or _reader
                    (self.fetching or reader.fetching(self.store, self._settings)).wait_for(self)
            except ImageError as err:
                self.error = err
        if self.error is not None:
            raise self.error
        assert self.data is not None
        return self.data

    def take(self, answer: Optional[bytes]) -> None:
        """Take what the process that fetches has answered; None: the version that was known is still the store's.

        Raises:
            protocol.ClosedError: it is no such answer.
            ImageError: that version has another digest than was asked for.
        """
        if answer is None and self.kept is not None:
            data = self.kept.data()
            if is_other(data, self.etag):
                raise changed(self.store, self.path)
            self.data = data
            return
        if answer is None or len(answer) < ETAG.size:
            raise protocol.ClosedError
        (length,) = ETAG.unpack_from(answer)
        etag = answer[ETAG.size : ETAG.size + length].decode("utf-8", "replace")
        self.data = answer[ETAG.size + length :]
        if etag:
            keep(self.store, self.path, etag, self.data, self._settings)

    def _read(self) -> bytes:
        if self.etag is not None and not self.etag.startswith("sha256:"):
            raise UsageError(
                "files have no etag such as %s" % shown(self.etag), hint="Use sha256: and the file's digest."
            )
        data = _file(self.store, self.path, self.most)
        if is_other(data, self.etag):
            raise changed(self.store, self.path)
        return data

    def request(self) -> bytes:
        """Return what the process that fetches is asked."""
        self.kept = find_kept(self.store, self.path)
        known = None if self.kept is None else self.kept.etag
        asked = fastjson.dumps({"path": self.path, "etag": self.etag, "known": known}).encode()
        return NUMBERS.pack(len(asked), self.most) + asked

    def record(self) -> bytes:
        """Return what `restored` makes the same of in another process of this server."""
        facts = {"store": self.store.facts, "path": self.path, "etag": self.etag, "most": self.most}
        settings = {
            name: self._settings[name] for name in ("venv", "image_cache_mb") if name in self._settings
        }
        return fastjson.dumps(dict(facts, settings=settings)).encode()


class Page(Pending):
    """Some names of a folder in a store, behind one of them."""

    def __init__(self, store: Store, path: str, after: str, settings: Dict[str, str]) -> None:
        super().__init__(store, path, None, MOST_PAGE, settings)
        self._after = after

    def request(self) -> bytes:
        """Return what the process that fetches is asked."""
        asked = fastjson.dumps({"path": self.path, "after": self._after}).encode()
        return NUMBERS.pack(len(asked), self.most) + asked

    def take(self, answer: Optional[bytes]) -> None:
        """Take the names as JSON."""
        if answer is None:
            raise protocol.ClosedError
        self.data = answer


def restored(record: bytes) -> Pending:
    """Return what another process of this server had asked for."""
    facts = fastjson.loads(record.decode())
    return _reader.begin(
        Pending(Store(facts["store"]), facts["path"], facts["etag"], facts["most"], facts["settings"])
    )


class Fetching:
    """The process that fetches from one store; it answers in the order in which it was asked."""

    def __init__(self, store: Store, settings: Dict[str, str]) -> None:
        self._store, self._settings = store, settings
        # started with the first image that needs it
        self._process: Any = None
        self._requests: Optional[socket.socket] = None
        # images of a statement that has failed meanwhile are not asked for
        self._waiting: Deque[ReferenceType[Pending]] = deque()
        self._sent: Deque[Pending] = deque()

    def add(self, pending: Pending) -> None:
        """Ask for an image, at once or when others have come."""
        pending.fetching = self
        self._waiting.append(ref(pending))
        self._send()

    def wait_for(self, pending: Pending) -> None:
        """Receive images up to this one."""
        if pending.fetching is not self:
            self.add(pending)
        try:
            while pending.data is None and pending.error is None:
                self._receive()
        # a cancel, whose answer would come to the next request; or a store that cannot be read, perhaps because of its
        # secret, which the next process reads again
        except BaseException:
            self.close()
            raise
        if isinstance(pending.error, StoreError):
            self.close()

    def close(self) -> None:
        """End the process; whoever still waits for an image asks anew."""
        for one in [*self._sent, *(found() for found in self._waiting)]:
            if one is not None:
                one.fetching = None
        self._sent.clear()
        self._waiting.clear()
        self._end()

    def _end(self) -> None:
        if self._requests is not None:
            self._requests.close()
            self._requests = None
        if self._process is not None:
            self._process.kill()
            self._process.wait()  # a backend must not collect zombies
            self._process = None

    def _send(self) -> None:
        while self._waiting and len(self._sent) < DEPTH:
            if self._requests is None:
                self._start()
            pending = self._waiting.popleft()()
            if pending is None:
                continue
            pending.tries += 1
            self._sent.append(pending)
            try:
                self._requests.sendall(pending.request())  # type: ignore[union-attr]
            except OSError as err:
                self._lost(err)

    def _receive(self) -> None:
        """Receive the answer to the oldest request."""
        self._send()
        if not self._sent:  # the process has ended too often
            return
        until = time.monotonic() + self._store.seconds + GRACE
        pending = self._sent[0]
        try:
            head = self._received(protocol.ANSWER.size, until)
            magic, kind, size = protocol.ANSWER.unpack(head)
            # what fetches may have been taken over by what it fetched
            bound = pending.most + ETAG.size + MOST_ETAG if kind == protocol.BYTES else protocol.MOST_TEXT * 4
            if magic != protocol.MAGIC or size > bound:
                raise protocol.ClosedError
            self._take(pending, kind, self._received(size, until))
        except (OSError, protocol.ClosedError) as err:
            self._lost(err)
            return
        self._sent.popleft()
        self._send()

    def _take(self, pending: Pending, kind: int, body: bytes) -> None:
        try:
            found = protocol.unpack_answer(kind, body)
            if isinstance(found, str):
                raise protocol.ClosedError
            pending.take(found)
        except EngineError as err:
            raise protocol.ClosedError from err
        except UdfError as err:
            pending.error = err

    def _lost(self, cause: Exception) -> None:
        """The process has ended: another one may do what this one was asked, but not again and again."""
        self._end()
        sent, self._sent = self._sent, deque()
        for pending in reversed(sent):
            if pending.tries < TRIES:
                self._waiting.appendleft(ref(pending))
                continue
            hint = "Look for the reason on that host: dbinfer doctor. " + MISSING
            pending.error = StoreError("the process that fetches images ended", hint=hint)
            pending.error.__cause__ = cause

    def _received(self, size: int, until: float) -> bytes:
        import select

        requests, parts, rest = self._requests, [], size
        if requests is None:
            raise protocol.ClosedError
        while rest:
            if select.select([requests], [], [], protocol.STEP)[0]:
                block = requests.recv(min(rest, 1 << 20))
                if not block:
                    raise protocol.ClosedError
                parts.append(block)
                rest -= len(block)
            if interrupts.cancelled():
                raise CancelledError("the statement was cancelled while it fetched an image")
            if time.monotonic() > until:
                raise StoreError(
                    "the store %s took more than %d s for an image" % (self._store.name, self._store.seconds),
                    hint="A superuser may give it more: dbinfer store add --seconds",
                )
        return b"".join(parts)

    def _start(self) -> None:
        import subprocess

        ours, theirs = socket.socketpair()
        python = own_python.python_of(self._settings)
        call = {
            "store": fastjson.dumps(self._store.facts),
            "socket": theirs.fileno(),
            "venv": self._settings.get("venv", ""),
            "read": [sys.base_prefix],
        }
        try:
            self._process = own_python.start_python(
                python,
                own_python.program_of("store.fetcher", call),
                "fetcher",
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                # the server's signals for this session are none for it
                start_new_session=True,
            )
        except OSError as err:
            ours.close()
            problem = "the Python that fetches, %s, cannot be started: %s" % (python, err.strerror)
            hint = "Make the environment again: dbinfer doctor says which."
            raise StoreError(problem, hint=hint, public="no image can be fetched here") from err
        finally:
            theirs.close()
        self._requests = ours


class Reader:
    """What one session reads from stores."""

    def __init__(self) -> None:
        self._fetching: OrderedDict[str, Fetching] = OrderedDict()
        self._said = ""
        self._stores: List[Store] = []
        self._asked: WeakValueDictionary[bytes, Pending] = WeakValueDictionary()
        # nobody else holds an image between the call that asks for it and the one that takes it
        self._last: Deque[Pending] = deque(maxlen=2)

    def ask(self, settings: Dict[str, str], reference: str, etag: Optional[str], most: int) -> Pending:
        """Ask for the image to which a reference leads.

        Args:
            settings: of a ticket, with the stores that the user may read.
            reference: store/path or a whole address.
            etag, most: see Pending.

        Raises:
            ImageError: the reference is none.
            StoreError: the user may read no such store.
        """
        _require_etag(etag)
        # every row comes here with the same stores
        said = settings.get("stores", "[]")
        if said != self._said:
            self._said, self._stores = said, declared(settings)
        store, path = find(self._stores, reference)
        return self.begin(Pending(store, path, etag, most, settings))

    def begin(self, pending: Pending) -> Pending:
        """Let an image be fetched."""
        pending.reader = self
        if pending.store.scheme != "file":
            self.fetching(pending.store, pending._settings).add(pending)
        return pending

    def fetching(self, store: Store, settings: Dict[str, str]) -> Fetching:
        """Return what fetches from a store: a process for each, so that none holds another one's secret."""
        key = fastjson.dumps(store.facts)
        if key not in self._fetching:
            self._fetching[key] = Fetching(store, settings)
            if len(self._fetching) > MOST_FETCHING:
                self._fetching.popitem(last=False)[1].close()
        self._fetching.move_to_end(key)
        return self._fetching[key]

    def handle(self, pending: Pending) -> bytes:
        """Return what stands for an image until `pending` finds it, in this process only."""
        name = HANDLE + os.urandom(RANDOM)
        self._asked[name] = pending
        self._last.append(pending)
        return name

    def pending(self, handle: bytes) -> Optional[Pending]:
        """Return the image for which a handle stands."""
        return self._asked.get(handle)


def list_files(
    settings: Dict[str, str], folder: str, after: str
) -> List[Tuple[str, int, Optional[str], str]]:
    """Return the next files of a folder in a store: reference, bytes, etag and time; none after the last one.

    Args:
        folder: store, store/path or a whole address.
        after: the reference of the last one that is known; "": from the first one on.
    """
    store, path = find(declared(settings), folder.rstrip("/"), folder=True)
    head = store.name + "/"
    if store.scheme == "file":
        found = [] if after else list(_files_below(store, path))
    elif store.scheme in PORTS:
        raise UsageError(
            "the store %s is a web server, which does not list its files" % store.name,
            hint="Load the list of their names from elsewhere.",
        )
    else:
        page = Page(store, path, after[len(head) :], settings)
        _reader.begin(page)
        found = [_entry(*one) for one in fastjson.loads(page.result().decode())]
    return [(head + name, size, etag, when) for name, size, etag, when in found if _is_path(name)]


def _entry(name: Any, size: Any, etag: Any, when: Any) -> Tuple[str, int, Optional[str], str]:
    """Return what a process says of a file, which may have been taken over, as what it should be."""
    return str(name), int(size), None if etag is None else str(etag), str(when)


def _is_path(name: str) -> bool:
    try:
        require_path(name, name)
    except ImageError:
        return False
    return True


def _files_below(store: Store, path: str) -> Iterator[Tuple[str, int, Optional[str], str]]:
    """Yield the files below a folder of a store of files; no link is followed."""
    import datetime

    number = _opened(store, path.split("/") if path else [], path)
    try:
        for place, folders, names, here in os.fwalk(".", dir_fd=number):
            folders.sort()
            for name in sorted(names):
                facts = os.stat(name, dir_fd=here, follow_symlinks=False)
                if stat.S_ISREG(facts.st_mode):
                    parts = [path, place[2:], name]
                    when = datetime.datetime.fromtimestamp(facts.st_mtime, datetime.timezone.utc).isoformat()
                    yield "/".join(part for part in parts if part), facts.st_size, None, when
    finally:
        os.close(number)


def _require_etag(etag: Optional[str]) -> None:
    if etag is None:
        return
    digest = etag[len("sha256:") :] if etag.startswith("sha256:") else None
    wrong = digest is not None and (
        len(digest) != HEXES or any(sign not in "0123456789abcdefABCDEF" for sign in digest)
    )
    if wrong or not etag.strip('"') or not etag.isascii() or not etag.isprintable():
        hint = "Use the ETag that the store gives, or sha256: and 64 hexadecimal digits."
        raise UsageError("%s is no etag" % shown(etag), hint=hint)


def _file(store: Store, path: str, most: int) -> bytes:
    """Return a file below the store's folder."""
    number = _opened(store, path.split("/"), path)
    try:
        return _content(number, store, path, most)
    finally:
        os.close(number)


def _opened(store: Store, parts: List[str], path: str) -> int:
    """Return the descriptor of what lies below the store's folder; nobody's link leads out of it."""
    try:
        number = os.open(store.prefix, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as err:
        problem = "the folder %s of the store %s cannot be read: %s" % (
            store.prefix,
            store.name,
            err.strerror,
        )
        public = "the store %s cannot be read now" % store.name
        raise StoreError(problem, hint="Each database host needs it.", public=public) from err
    for part in parts:
        above = number
        try:
            number = os.open(part, FLAGS, dir_fd=above)
        except (FileNotFoundError, NotADirectoryError) as err:
            raise missing(store, path) from err
        except OSError as err:
            problem = "the store %s cannot give %s: %s" % (store.name, shown(path), err.strerror)
            raise ImageError(problem, hint="Links are not followed.") from err
        finally:
            os.close(above)
    return number


def _content(number: int, store: Store, path: str, most: int) -> bytes:
    facts = os.fstat(number)
    if not stat.S_ISREG(facts.st_mode):
        raise missing(store, path)
    if facts.st_size > most:
        raise too_large(store, path, most)
    with open(number, "rb", closefd=False) as file:
        data = file.read(most + 1)
    if len(data) > most:  # it grew
        raise too_large(store, path, most)
    return data


_reader = Reader()


def read_image(settings: Dict[str, str], reference: str, etag: Optional[str], most: int) -> bytes:
    """Return an image from a store, by the reader of this process."""
    return _reader.ask(settings, reference, etag, most).result()


def ask_for_image(settings: Dict[str, str], reference: str, most: int) -> bytes:
    """Return a handle for an image that is fetched from now on; `pending_of` finds it."""
    return _reader.handle(_reader.ask(settings, reference, None, most))


def pending_of(handle: bytes) -> Optional[Pending]:
    """Return the image that was asked for under a handle."""
    return _reader.pending(handle)
