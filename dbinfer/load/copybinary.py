"""Rows as PostgreSQL's binary COPY format, given out as a file that is made while it is read.

Format: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterable, Iterator
from typing import Any

HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
TRAILER = struct.pack("!h", -1)
CHUNK_BYTES = 1 << 20


def encode(rows: Iterable[tuple[bytes | None, ...]]) -> Iterator[bytes]:
    """Yield the stream in pieces; a value is its bytes (text in the client's encoding, bytea as it is) or None."""
    yield HEADER
    for row in rows:
        yield struct.pack("!h", len(row))
        for value in row:
            yield struct.pack("!i", -1 if value is None else len(value))
            if value:
                yield value
    yield TRAILER


class Stream(io.RawIOBase):
    """A readable file over an iterator of pieces.

    psycopg2 reports whatever `read` raises as an error of the server; `error` keeps the real one (Ctrl-C too).
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self.error: BaseException | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any, /) -> int:
        try:
            while not self._rest:
                self._rest = memoryview(next(self._pieces))
        except StopIteration:
            return 0
        except BaseException as err:
            self.error = err
            raise
        size = min(len(buffer), len(self._rest))
        buffer[:size] = self._rest[:size]
        self._rest = self._rest[size:]
        return size
