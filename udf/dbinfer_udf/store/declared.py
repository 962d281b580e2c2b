"""Which stores a statement's user may read, and what a reference to an image means: standard library only."""

from __future__ import annotations

import struct

from .. import fastjson
from ..errors import ImageError, StoreError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

# Of a request to the process that fetches: its bytes, and those that the image may have
NUMBERS = struct.Struct("<II")
# Before an image that it has fetched: the bytes of its etag, which follow
ETAG = struct.Struct("<H")
MOST_ETAG = 1000
PAGE = 1000  # names of a folder that are told at once
DEPTH = 16  # requests that it works on at a time
HANDLE = b"dbinfer's handle"  # begins what stands for an image on its way, see reader.Reader.handle
MOST_PATH = 1024  # bytes, as in S3
SHOWN = 200  # characters of a reference in an error
NAMED = "Write store/path, or its whole address. Stores that you may read: SELECT name FROM dbinfer.stores"
MISSING = "Install it on each database host, or each host of workers: VENV/bin/pip install obstore"
PORTS = {"https": 443, "http": 80}
# Where Google's clients get a token for a service account
TOKENS = ("oauth2.googleapis.com", 443)


class Store:
    """A store as a superuser has declared it; see sql/functions/add_store.sql for what the values can be.

    Attributes:
        scheme: s3, gs, az, https, http or file.
        place: bucket, container or host with port; "" for files.
        prefix: the folder below it, without slashes at its ends; of files an absolute path.
    """

    def __init__(self, facts: Dict[str, Any]) -> None:
        self.facts = facts
        self.name: str = facts["name"]
        self.url: str = facts["url"]
        self.scheme, _, rest = self.url.partition("://")
        if self.scheme == "file":
            self.place, self.prefix = "", rest
        else:
            self.place, _, self.prefix = rest.partition("/")
        self.seconds: int = facts["seconds"]
        self.private: bool = facts["private"]
        self.secret: Optional[str] = facts.get("secret")

    @property
    def endpoint(self) -> Tuple[str, str, int]:
        """Return scheme, host and port of the server."""
        if self.scheme in PORTS:
            return _address("%s://%s" % (self.scheme, self.place))
        if self.facts.get("endpoint"):
            return _address(self.facts["endpoint"])
        if self.scheme == "gs":
            return "https", "storage.googleapis.com", 443
        return "https", "s3.%s.amazonaws.com" % (self.facts.get("region") or "us-east-1"), 443

    def key(self, path: str) -> str:
        """Return the object's name in its bucket, or its path on the server."""
        return "%s/%s" % (self.prefix, path) if self.prefix else path


def _address(url: str) -> Tuple[str, str, int]:
    scheme, _, place = url.partition("://")
    host, colon, port = place.rpartition(":")
    if not colon or "]" in port:  # an address of IPv6 has colons of its own
        host, port = place, ""
    return scheme, host.strip("[]").lower(), int(port) if port.isdigit() else PORTS[scheme]


def declared(settings: Dict[str, str]) -> List[Store]:
    """Return the stores of which the user's ticket knows."""
    return [Store(facts) for facts in fastjson.loads(settings.get("stores", "[]"))]


def endpoints(store: Store) -> List[Tuple[str, int, bool]]:
    """Return host, port and whether a private address is allowed, of all servers that a store needs."""
    found = [(*store.endpoint[1:], store.private)]
    return [*found, (*TOKENS, False)] if store.scheme == "gs" else found


def find(stores: List[Store], reference: str, folder: bool = False) -> Tuple[Store, str]:
    """Return the store of a reference, and the path in it.

    Args:
        folder: it may mean the whole store, with the path "".

    Raises:
        StoreError: the user may read no such store.
        ImageError: the path would leave the store.
    """
    if "://" in reference:
        fitting = [store for store in stores if (reference + "/").startswith(store.url + "/")]
        # of stores within each other the inner one
        store = max(fitting, key=lambda store: len(store.url)) if fitting else None
        path = reference[len(store.url) + 1 :] if store else ""
    else:
        name, _, path = reference.partition("/")
        store = next((one for one in stores if one.name == name), None)
    if store is None:
        raise StoreError("you may read no store with %s" % shown(reference), hint=NAMED, sqlstate="42501")
    if path or not folder:
        require_path(path, reference)
    return store, path


def require_path(path: str, reference: str) -> None:
    """Raise ImageError unless a path stays below its store."""
    parts = path.split("/")
    if any(part in ("", ".", "..") for part in parts) or len(path.encode()) > MOST_PATH:
        problem = "the reference %s is no path in a store" % shown(reference)
        raise ImageError(problem, hint="Write it without empty names, . and .. (%d bytes)." % MOST_PATH)
    if not path.isprintable() or "\\" in path:
        raise ImageError("the reference %s holds a backslash or what cannot be printed" % shown(reference))


def shown(reference: str) -> str:
    """Return a reference for an error: quoted, printable, not too long."""
    text = reference if len(reference) <= SHOWN else reference[: SHOWN - 3] + "..."
    return repr(text)


def is_other(data: bytes, etag: Optional[str]) -> bool:
    """Return whether an image lacks the digest that was asked for; other etags are the store's to compare."""
    if etag is None or not etag.startswith("sha256:"):
        return False
    import hashlib

    return hashlib.sha256(data).hexdigest() != etag[len("sha256:") :].lower()


def missing(store: Store, path: str) -> ImageError:
    """Return the error of an image that is not there."""
    return ImageError("the store %s has no %s" % (store.name, shown(path)), sqlstate="P0002")


def changed(store: Store, path: str) -> ImageError:
    """Return the error of an image that is not the version that was asked for."""
    problem = "the store %s has another version of %s than the etag says" % (store.name, shown(path))
    return ImageError(problem, hint="Load its reference again, or ask without an etag.")


def too_large(store: Store, path: str, most: int) -> ImageError:
    """Return the error of an image above the limit."""
    problem = "the store %s has %s with more than %d bytes" % (store.name, shown(path), most)
    return ImageError(problem, hint="The limit is the setting max_image_bytes.", sqlstate="54000")


def refused(store: Store, path: str) -> StoreError:
    """Return the error of a store that does not let us read."""
    return StoreError(
        "the store %s refuses to give %s" % (store.name, shown(path)),
        hint="Its secret must allow to read there, as a superuser sees in dbinfer.stores.",
        sqlstate="42501",
    )
