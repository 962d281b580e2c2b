"""The process that fetches images from one store: it reaches the store's server through its gate, and nothing else.

It holds the secret of that store, sees no model, and decodes nothing. Two processes: the first is the gate (see
gate.py), which may go to the network and has no secret; its child fetches, and may connect to the gate alone.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
import stat
import threading
import time
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Queue
from typing import Any, Callable, Dict, Iterator, List, NamedTuple, NoReturn, Optional, Tuple

from ..errors import ImageError, StoreError
from ..host import protocol, sandbox
from ..host.libraries import add_venv
from .declared import (
    DEPTH,
    ETAG,
    MISSING,
    MOST_ETAG,
    NUMBERS,
    PAGE,
    Store,
    changed,
    endpoints,
    is_other,
    missing,
    refused,
    shown,
    too_large,
)
from .gate import be_gate

MOST_SECRET = 1 << 16  # bytes
BLOCK = 1 << 20
BUCKETS = ("s3", "gs", "az")
TRIES = 4  # of a request that a server could not serve now
PAUSE = 0.2  # seconds before the second one; then twice as long each time
ROOM = 1 << 26  # bytes of images that wait for the session; the one for which it waits may be larger
# What a server says that has too much to do, or whose own servers do not answer
BUSY = (429, 500, 502, 503, 504)
# An image, or None where the known version is still right; and its etag
Fetched = Tuple[Optional[bytes], Optional[str]]
# Where certificates lie: Debian, Red Hat
CERTIFICATES = ("/etc/ssl", "/etc/pki", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates")


def child(call: Dict[str, Any]) -> None:
    """Be the gate, and start what fetches.

    Args:
        call: `store` (JSON), `socket` (descriptor of the session's requests), `venv`, `read` (folders that it may read
            beside it).
    """
    store = Store(json.loads(call["store"]))
    token = os.urandom(24).hex()
    listener = socket.create_server(("127.0.0.1", 0), backlog=2 * DEPTH)
    lifeline, held = os.pipe()
    gate = os.getpid()
    if os.fork() == 0:
        os.close(lifeline)
        try:
            sandbox.die_with(gate)
            port = listener.getsockname()[1]
            listener.close()
            _be_fetcher(store, call, port, token)
        finally:
            os._exit(0)
    os.close(held)
    os.close(call["socket"])
    sandbox.set_title("dbinfer-gate")
    be_gate(listener, lifeline, endpoints(store), token)


def _be_fetcher(store: Store, call: Dict[str, Any], port: int, token: str) -> None:
    requests = socket.socket(fileno=call["socket"])
    sandbox.set_title("dbinfer-fetch")
    if call["venv"]:
        add_venv(call["venv"])
    fetcher = Fetcher(store, ("127.0.0.1", port), token)
    _give_up([*call["read"], call["venv"]], port)
    serve(requests, fetcher)


def serve(requests: socket.socket, fetcher: Fetcher) -> None:
    """Fetch several images at a time, and answer in the order of the requests, until the session ends."""
    answers: Queue[Any] = Queue()
    room = Room(ROOM)
    threading.Thread(target=_answer, args=(requests, answers, room), daemon=True).start()
    with ThreadPoolExecutor(DEPTH) as pool:
        number = 0
        while True:
            size, most = NUMBERS.unpack(_exactly(requests, NUMBERS.size))
            asked = json.loads(_exactly(requests, size))
            share = Share(room, number)
            job: Future[Any]
            if "after" in asked:
                job = pool.submit(fetcher.page, asked["path"], asked["after"])
            else:
                wanted = Wanted(asked["path"], asked["etag"], asked["known"], most)
                job = pool.submit(fetcher.fetch, wanted, share.take)
            answers.put((share, job))
            number += 1


def _answer(requests: socket.socket, answers: Queue[Any], room: Room) -> None:
    while True:
        share, found = answers.get()
        try:
            answer = protocol.pack_answer(found.result())
        except Exception as err:
            answer = protocol.pack_error(err)
        try:
            requests.sendall(answer)
        except OSError:
            _end()
        share.give()


def _exactly(requests: socket.socket, size: int) -> bytes:
    found = b""
    while len(found) < size:
        block = requests.recv(size - len(found))
        if not block:
            _end()
        found += block
    return found


def _end() -> NoReturn:
    """The session has ended, and with it this process, whatever its threads wait for."""
    os._exit(0)


class Wanted(NamedTuple):
    """An image that is asked for.

    Attributes:
        etag: the version that it must have, or `sha256:` and the digest; None where any will do.
        known: the version that need not be sent again.
        most: bytes that it may have.
    """

    path: str
    etag: Optional[str]
    known: Optional[str]
    most: int

    @property
    def version(self) -> Optional[str]:
        """The etag, if it is one."""
        return None if self.etag is None or self.etag.startswith("sha256:") else self.etag.strip('"')

    @property
    def unsent(self) -> Optional[str]:
        """The known version, if it may be the one that is wanted."""
        may_be = self.known is not None and self.version in (None, self.known.strip('"'))
        return self.known if may_be else None


class Room:
    """How many bytes wait for the session; the image for which it waits itself always has room."""

    def __init__(self, most: int) -> None:
        self._most, self._taken, self._first = most, 0, 0
        self._changed = threading.Condition()

    def take(self, number: int, size: int) -> None:
        """Wait until there is room for bytes of the image of that number."""
        with self._changed:
            self._changed.wait_for(lambda: number == self._first or self._taken + size <= self._most)
            self._taken += size

    def give(self, size: int) -> None:
        """The first image has been sent, and had so many bytes."""
        with self._changed:
            self._taken -= size
            self._first += 1
            self._changed.notify_all()


class Share:
    """The part of one image in the room."""

    def __init__(self, room: Room, number: int) -> None:
        self._room, self._number, self._size = room, number, 0

    def take(self, size: int) -> None:
        """Wait until there is room for so many more bytes."""
        self._room.take(self._number, size)
        self._size += size

    def give(self) -> None:
        """Give it back."""
        self._room.give(self._size)


def _give_up(read: List[str], port: int) -> None:
    """Take all rights but to compute, to read libraries, and to connect to the gate, as far as this kernel knows how.

    Nobody else of this user may look into the process, which holds a secret.
    """
    import resource

    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sandbox.prctl(sandbox.PR_SET_DUMPABLE, 0)
    sandbox.no_new_privileges()
    for restrict in (
        lambda: sandbox.restrict_files([*sandbox.SYSTEM, *sandbox.KERNEL, *CERTIFICATES, *read], (), [port]),
        lambda: sandbox.forbid_apart(os.getpid(), sandbox.count_threads() == 1, connects=True),
    ):
        with contextlib.suppress(OSError):
            restrict()


class Fetcher:
    """Fetches images from a store; several threads may use it.

    Args:
        gate: address of the proxy through which all requests go.
        token: what the gate wants to see.
    """

    def __init__(self, store: Store, gate: Tuple[str, int], token: str) -> None:
        self._store = store
        self._gate = gate
        self._token = token
        # read before the guards close; a wrong one is the error of each image
        self._secret = _secret(store) if store.secret else {}
        self._lock = threading.Lock()
        self._made: Any = None
        if store.scheme in BUCKETS:
            with contextlib.suppress(ImportError):  # said at the first image
                import obstore.store  # noqa: F401

    def fetch(self, wanted: Wanted, take: Callable[[int], None]) -> Optional[bytes]:
        """Return the bytes of its etag, the etag, and the image file; None where the known version is still right.

        Args:
            take: waits until there is room for so many bytes of it.

        Raises:
            ImageError: there is none, it is another version or too large.
            StoreError: the store cannot be read.
        """
        store = self._store
        fetch = self._from_bucket if store.scheme in BUCKETS else self._over_http
        body = Body(store, wanted.path, wanted.most, take, time.monotonic() + store.seconds)
        data, found = fetch(wanted, body)
        if data is None:
            return None
        version = wanted.version
        if (version is not None and (found or "").strip('"') != version) or is_other(data, wanted.etag):
            raise changed(store, wanted.path)
        etag = (found or "").encode()
        etag = b"" if len(etag) > MOST_ETAG else etag
        return ETAG.pack(len(etag)) + etag + data

    def _from_bucket(self, wanted: Wanted, body: Body) -> Fetched:
        store, obstore = self._store, self._library()
        from obstore import exceptions

        path = wanted.path
        options: Any = {}
        if wanted.version is not None:
            options["if_match"] = '"%s"' % wanted.version
        if wanted.unsent is not None:
            options["if_none_match"] = wanted.unsent
        try:
            result = obstore.get(self._client(), store.key(path), options=options)
            data = body.joined((bytes(block) for block in result.stream()), result.meta["size"])
            return data, result.meta["e_tag"]
        except FileNotFoundError as err:
            raise missing(store, path) from err
        except exceptions.NotModifiedError:
            return None, None
        except exceptions.PreconditionError as err:
            raise changed(store, path) from err
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as err:
            raise refused(store, path) from err
        except (exceptions.BaseError, OSError, ValueError) as err:
            self._raise_unreachable(path, _last_line(str(err)), err)

    def page(self, path: str, after: str) -> bytes:
        """Return as JSON the next files of a folder in a bucket: path in the store, bytes, etag and time.

        Args:
            after: the path in the store of the last one that is known; "": from the first one on.
        """
        store, obstore = self._store, self._library()
        from obstore import exceptions

        head = store.key("")
        try:
            offset = store.key(after) if after else None
            found = obstore.list(self._client(), store.key(path).rstrip("/"), offset=offset, chunk_size=PAGE)
            page: List[Any] = next(iter(found), [])
        except (exceptions.PermissionDeniedError, exceptions.UnauthenticatedError) as err:
            raise refused(store, path or "a list of its files") from err
        except (exceptions.BaseError, OSError, ValueError) as err:
            self._raise_unreachable(path, _last_line(str(err)), err)
        files = [one for one in page if one["path"].startswith(head)]
        return json.dumps(
            [
                (one["path"][len(head) :], one["size"], one["e_tag"], one["last_modified"].isoformat())
                for one in files
            ]
        ).encode()

    def _library(self) -> Any:
        try:
            import obstore
        except ImportError as err:
            problem = "the runtime of this host has no obstore, which reads %s:// stores" % self._store.scheme
            raise StoreError(problem, hint=MISSING) from err
        return obstore

    def _client(self) -> Any:
        """Return the library's client, which keeps its connections."""
        with self._lock:
            if self._made is None:
                self._made = self._new_client(self._store)
        return self._made

    def _new_client(self, store: Store) -> Any:
        from datetime import timedelta

        from obstore.store import AzureStore, GCSStore, S3Store

        scheme, host, port = store.endpoint
        limit = timedelta(seconds=store.seconds)
        common: Dict[str, Any] = {
            "client_options": {
                "proxy_url": "http://gate:%s@%s:%d" % (self._token, *self._gate),
                "allow_http": scheme == "http",
                "timeout": limit,
                "connect_timeout": limit,
            },
            "retry_config": {
                "max_retries": TRIES - 1,
                "retry_timeout": limit,
                "backoff": {
                    "init_backoff": timedelta(seconds=PAUSE),
                    "max_backoff": timedelta(seconds=5),
                    "base": 2,
                },
            },
        }
        if scheme == "http":
            # the gate closes such a connection after one answer: a request that is given it at that moment is lost, and
            # waits until its time is over
            common["client_options"]["pool_max_idle_per_host"] = "0"
        keys = self._keys()
        if store.scheme == "gs":
            config: Any = {"service_account_key": json.dumps(keys)} if keys else {"skip_signature": True}
            if store.facts.get("endpoint"):
                config["base_url"] = store.facts["endpoint"]
            return GCSStore(store.place, config=config, **common)
        config = {**keys} if keys else {"skip_signature": True}
        config["endpoint"] = "%s://%s:%d" % (scheme, "[%s]" % host if ":" in host else host, port)
        if store.scheme == "az":
            config = {"account_name": host.split(".")[0], **config}
            return AzureStore(store.place, config=config, **common)
        config["region"] = store.facts.get("region") or "us-east-1"
        return S3Store(store.place, config=config, **common)

    def _keys(self) -> Dict[str, Any]:
        if isinstance(self._secret, StoreError):
            raise self._secret
        return self._secret

    def _over_http(self, wanted: Wanted, body: Body) -> Fetched:
        """Fetch from a web server, without following it elsewhere."""
        from http import client

        pause, problem = PAUSE, ""
        cause: Optional[Exception] = None
        for _ in range(TRIES):
            try:
                status, data, found = self._asked_once(wanted, body)
            except (OSError, client.HTTPException) as err:  # also a connection that was cut
                problem, cause = str(err) or type(err).__name__, err
                if self._reason():
                    break
            else:
                if status not in BUSY:
                    return self._judged(wanted.path, status, data, found)
                problem, cause = "it answers %d" % status, None
            if time.monotonic() + pause > body.until:
                break
            time.sleep(pause)
            pause *= 2
        self._raise_unreachable(wanted.path, problem, cause)

    def _judged(self, path: str, status: int, data: bytes, etag: Optional[str]) -> Fetched:
        store = self._store
        if status == 304:
            return None, None
        if status == 200:
            return data, etag
        if status in (404, 410):
            raise missing(store, path)
        if status == 412:
            raise changed(store, path)
        if status in (401, 403):
            raise refused(store, path)
        if 300 <= status < 400:
            problem = "the store %s answers for %s with a redirect, which is not followed" % (
                store.name,
                shown(path),
            )
            raise ImageError(problem, hint="Declare the store to which it leads, and name that one.")
        self._raise_unreachable(path, "it answers %d" % status, None)

    def _asked_once(self, wanted: Wanted, body: Body) -> Tuple[int, bytes, Optional[str]]:
        import ssl
        from http import client
        from urllib.parse import quote

        store = self._store
        scheme, host, port = store.endpoint
        target = "/" + quote(store.key(wanted.path))
        headers = {"Host": store.place, "Accept": "image/*, */*;q=0.5", "User-Agent": "dbinfer"}
        if wanted.version is not None:
            headers["If-Match"] = '"%s"' % wanted.version
        if wanted.unsent is not None:
            headers["If-None-Match"] = wanted.unsent
        seconds = max(body.until - time.monotonic(), 0.1)
        connection: client.HTTPConnection
        if scheme == "https":
            connection = client.HTTPSConnection(
                *self._gate, timeout=seconds, context=ssl.create_default_context()
            )
            connection.set_tunnel(host, port, self._proof)
        else:
            connection = client.HTTPConnection(*self._gate, timeout=seconds)
            target = "http://%s%s" % (store.place, target)
            headers.update(self._proof)
        try:
            connection.request("GET", target, headers=headers)
            answer = connection.getresponse()
            size = answer.length
            if answer.status != 200:
                return answer.status, b"", None
            data = body.joined(iter(lambda: answer.read(BLOCK), b""), size)
            if size is not None and len(data) < size:
                raise client.IncompleteRead(b"", size - len(data))
            return answer.status, data, answer.getheader("ETag")
        finally:
            connection.close()

    @property
    def _proof(self) -> Dict[str, str]:
        from base64 import b64encode

        return {"Proxy-Authorization": "Basic " + b64encode(b"gate:" + self._token.encode()).decode()}

    def _reason(self) -> str:
        """Return why the gate made no connection, if it made none."""
        from http import client

        connection = client.HTTPConnection(*self._gate, timeout=5)
        with contextlib.suppress(OSError, client.HTTPException):
            connection.request("GET", "/", headers=self._proof)
            return connection.getresponse().read(1000).decode("utf-8", "replace")
        return ""

    def _raise_unreachable(self, path: str, problem: str, cause: Optional[BaseException]) -> NoReturn:
        store = self._store
        problem = self._reason() or problem
        raise StoreError(
            "the store %s cannot be read: %s" % (store.name, problem),
            detail="It was asked for %s." % (shown(path) if path else "its files"),
            hint="Look at it from the database hosts: dbinfer store check %s" % store.name,
            public="the store %s cannot be read now" % store.name,
        ) from cause


class Body:
    """What a server sends of one image, within its limits.

    Args:
        most: bytes that it may have.
        take: waits until there is room for so many bytes of it.
        until: when it must be there (time.monotonic).
    """

    def __init__(self, store: Store, path: str, most: int, take: Callable[[int], None], until: float) -> None:
        self._store, self._path, self._most, self._take = store, path, most, take
        self.until = until

    def joined(self, blocks: Iterator[bytes], size: Optional[int]) -> bytes:
        """Return the blocks as one; `size` is what the server says of them.

        Raises:
            ImageError: they are too many bytes.
            TimeoutError: they come too slowly.
        """
        found, length = [], size or 0
        if length <= self._most:
            length = 0
            for block in blocks:
                found.append(block)
                length += len(block)
                if length > self._most:
                    break
                came = time.monotonic()
                if came > self.until:
                    raise TimeoutError("it sends too slowly")
                self._take(len(block))
                self.until += time.monotonic() - came  # that wait is no fault of the server
        if length > self._most:
            raise too_large(self._store, self._path, self._most)
        return b"".join(found)


def _secret(store: Store) -> Dict[str, Any] | StoreError:
    """Return the keys in the store's file, or what is wrong with it."""
    try:
        with open(store.secret or "", "rb") as file:
            facts = os.fstat(file.fileno())
            if facts.st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                return _no_secret(store, "others than its owner may use it", "chmod 600 it.")
            found = json.loads(file.read(MOST_SECRET))
        if isinstance(found, dict) and all(isinstance(value, str) for value in found.values()):
            return found
        problem = "it is no JSON object of texts"
    except OSError as err:
        problem = err.strerror or str(err)
    except ValueError:
        problem = "it is no JSON"
    return _no_secret(store, problem, "docs/how-to/images-elsewhere.md shows what it holds.")


def _no_secret(store: Store, problem: str, hint: str) -> StoreError:
    sentence = "the secret of the store %s, %s, cannot be used: %s" % (store.name, store.secret, problem)
    return StoreError(sentence, hint=hint, public="the store %s cannot be read now" % store.name)


def _last_line(text: str) -> str:
    """Return what a library says, without the address and the debugging text around it."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[0][:200] if lines else "no answer"
