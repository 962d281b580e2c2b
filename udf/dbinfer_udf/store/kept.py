"""Images that this server has fetched before, as files: one whose version is still that of the store is not sent again.

They lie among the server's own temporary files, so the server removes them when it starts, and no backup has them. (So
a worker outside of a server keeps none.)
Their names are digests, because members of pg_monitor see the names of temporary files.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import suppress
from typing import Any, BinaryIO, Dict, List, Optional, Tuple

from .. import fastjson
from .declared import Store

FOLDER = os.path.join("base", "pgsql_tmp", "pgsql_tmp_dbinfer_images")
DEFAULT_MB = 256
LOOK_EVERY = 64  # files that a process writes before it looks how much there is
LEFT = 0.9  # of the limit, when there was too much
MOST_HEAD = 1 << 12  # bytes of a file's first line, which says what it is

_written = 0


class KeptImage:
    """A version of an image in the folder; open, so that nobody takes it away meanwhile."""

    def __init__(self, file: BinaryIO, etag: str) -> None:
        self._file, self.etag = file, etag

    def data(self) -> bytes:
        """Return the image file."""
        with self._file:
            # the least recently used go first
            os.utime(self._file.fileno())
            return self._file.read()


def _path(store: Store, path: str) -> str:
    facts = [store.url, store.facts.get("endpoint"), path]
    return os.path.join(FOLDER, hashlib.sha256(fastjson.dumps(facts).encode()).hexdigest())


def find_kept(store: Store, path: str) -> Optional[KeptImage]:
    """Return what there is of an image; None if there is nothing, or what cannot be read."""
    try:
        file = open(_path(store, path), "rb")  # noqa: SIM115  # KeptImage closes it
    except OSError:
        return None
    head: Any = None
    with suppress(ValueError, OSError):
        head = fastjson.loads(file.readline(MOST_HEAD).decode())
    if not isinstance(head, dict) or not isinstance(head.get("etag"), str):
        file.close()
        return None
    return KeptImage(file, head["etag"])


def keep(store: Store, path: str, etag: str, data: bytes, settings: Dict[str, str]) -> None:
    """Keep an image, and let others go where there are too many; a full disk is no error."""
    global _written
    most = int(settings.get("image_cache_mb", DEFAULT_MB)) << 20
    head = fastjson.dumps({"etag": etag}).encode() + b"\n"
    in_server = os.path.exists("PG_VERSION")  # a server process works in its data directory
    if not in_server or len(data) > most // 8 or len(head) > MOST_HEAD:
        return
    name = _path(store, path)
    new = "%s.%d" % (name, os.getpid())
    with suppress(OSError):
        os.makedirs(FOLDER, mode=0o700, exist_ok=True)
        try:
            # O_NOFOLLOW and O_EXCL cost nothing here, and the folder is the server's own
            with os.fdopen(
                os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o600), "wb"
            ) as file:
                file.write(head)
                file.write(data)
            os.rename(new, name)
        except OSError:
            os.unlink(new)
            raise
        if _written % LOOK_EVERY == 0:
            _make_room(most)
        _written += 1


def _make_room(most: int) -> None:
    files: List[Tuple[float, int, str]] = []
    with os.scandir(FOLDER) as listed:
        for entry in listed:
            with suppress(FileNotFoundError):
                facts = entry.stat(follow_symlinks=False)
                files.append((facts.st_mtime, facts.st_size, entry.path))
    there = sum(size for _, size, _ in files)
    if there <= most:
        return
    for _, size, path in sorted(files):
        with suppress(FileNotFoundError):
            os.unlink(path)
        there -= size
        if there <= most * LEFT:
            return
