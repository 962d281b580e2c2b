"""Where an export writes its files: a folder of this machine, or a bucket of an object store."""

from __future__ import annotations

import itertools
import os
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urlsplit

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.pins import install

SCHEMES = ("s3", "gs", "az")
# A folder within the folder for files that are not complete, gone at the end
TEMPORARY = ".dbinfer-export"
KEYS = (
    "The keys come from the provider's own variables, such as AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and AWS_REGION, "
    "GOOGLE_APPLICATION_CREDENTIALS, or AZURE_STORAGE_ACCOUNT_NAME and AZURE_STORAGE_ACCOUNT_KEY."
)


class Place(Protocol):
    """A place for files; a file is there whole or not at all."""

    def names(self) -> Iterator[str]:
        """Yield the names of the files that are there, with slashes."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file; threads may do so side by side.

        Raises:
            DataError: it cannot be written.
        """


@contextmanager
def open_place(to: str, endpoint: str | None) -> Iterator[Place]:
    """Yield the place of an address.

    Raises:
        DataError: it cannot be used.
        UsageError: the address makes no sense.
    """
    scheme, slashes, _ = to.partition("://")
    if not slashes:
        if endpoint:
            raise UsageError(f"{to!r} is a folder, which has no endpoint")
        with _folder(Path(to)) as folder:
            yield folder
    elif scheme in SCHEMES:
        yield Bucket(to, endpoint)
    else:
        raise UsageError(f"{to!r} is neither a folder nor an address of s3://, gs:// or az://")


def check_name(name: str | None) -> str:
    """Return the name of a file as it is, if it stays within any folder.

    Raises:
        DataError: it does not, or is none.
    """
    if not name:
        raise DataError("a row has no name for its file", "The query's first column names the files.")
    parts = name.split("/")
    if any(part in ("", ".", "..") for part in parts) or "\0" in name or parts[0] == TEMPORARY:
        raise DataError(
            f"{name!r} cannot be the name of a file",
            "Names are relative, with slashes between folders, and without empty parts, '.' and '..'.",
        )
    return name


@contextmanager
def _folder(path: Path) -> Iterator[Folder]:
    """Yield a folder that no other export writes to meanwhile."""
    try:
        path.mkdir(parents=True, exist_ok=True)
        held = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as err:
        raise DataError(f"{str(path)!r} cannot be a folder of files: {err.strerror}") from err
    temporary = path / TEMPORARY
    with ExitStack() as stack:
        stack.callback(os.close, held)
        # before anything is removed: it may be another export's
        _hold(held, path)
        stack.callback(shutil.rmtree, temporary, ignore_errors=True)
        try:
            # what an export left that was killed
            shutil.rmtree(temporary, ignore_errors=True)
            temporary.mkdir()
            yield Folder(path, temporary)
        except OSError as err:
            raise DataError(f"{str(path)!r} cannot be written to: {err.strerror}") from err


def _hold(folder: int, path: Path) -> None:
    import fcntl

    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as err:
        raise DataError(f"another export writes to {str(path)!r}", "Wait for its end.") from err
    except OSError:
        pass  # some network file systems have no locks


class Folder:
    """A folder; files are written beside it and renamed, so that none is there in part."""

    def __init__(self, path: Path, temporary: Path) -> None:
        self._path, self._temporary = path, temporary
        self._numbers = itertools.count()

    def names(self) -> Iterator[str]:
        """Yield the names of all files."""
        for top, folders, files in os.walk(self._path):
            if top == str(self._path):
                folders[:] = [name for name in folders if name != TEMPORARY]
            start = os.path.relpath(top, self._path)
            yield from (name if start == "." else f"{start}/{name}" for name in files)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, also onto the disk: one that is there counts as complete."""
        file, part = self._path / name, self._temporary / str(next(self._numbers))
        try:
            with open(part, "xb") as out:
                out.write(data)
                out.flush()
                os.fsync(out.fileno())
            try:
                part.rename(file)
            except FileNotFoundError:
                file.parent.mkdir(parents=True, exist_ok=True)
                part.rename(file)
        except (OSError, ValueError) as err:
            problem = getattr(err, "strerror", None) or str(err)
            raise DataError(f"the file {name!r} cannot be written to {str(self._path)!r}: {problem}") from err


class Bucket:
    """A bucket, or what lies in it below a prefix."""

    def __init__(self, url: str, endpoint: str | None) -> None:
        try:
            import obstore
        except ImportError as err:
            raise UsageError(
                "writing to object storage needs obstore, which is not installed", install("buckets")
            ) from err
        self._obstore = obstore
        self._url = url
        with self._told("cannot be used"):
            self._store = _client(url, endpoint)

    def names(self) -> Iterator[str]:
        """Yield the names of all objects below the prefix."""
        with self._told("cannot be listed"):
            for found in self._obstore.list(self._store):
                yield from (one["path"] for one in found)

    def put(self, name: str, data: bytes) -> None:
        """Write an object, at once; a request that fails is made again."""
        with self._told(f"takes no file {name!r}"):
            self._obstore.put(self._store, name, data)

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        try:
            yield
        except (self._obstore.exceptions.BaseError, OSError, ValueError) as err:
            lines = [line.strip() for line in str(err).splitlines() if line.strip()]
            raise DataError(f"{self._url} {what}: {lines[0] if lines else err!r}", KEYS) from err


def _client(url: str, endpoint: str | None) -> Any:
    from obstore.store import AzureStore, GCSStore, S3Store

    parts = urlsplit(url)
    prefix = parts.path.strip("/") or None
    common: dict[str, Any] = {"prefix": prefix}
    if endpoint:
        common["client_options"] = {"allow_http": endpoint.startswith("http://")}
    if parts.scheme == "gs":
        return GCSStore(parts.netloc, config={"base_url": endpoint} if endpoint else None, **common)
    config: Any = {"endpoint": endpoint} if endpoint else {}
    if parts.scheme == "az":
        return AzureStore(parts.netloc, config=config, **common)
    if not any(os.environ.get(name) for name in ("AWS_REGION", "AWS_DEFAULT_REGION")):
        config["region"] = "us-east-1"
    return S3Store(parts.netloc, config=config, **common)
