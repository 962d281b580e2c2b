"""Rows in the binary form of COPY, a value being its bytes or None: written in pieces, read as they come.

Format: https://www.postgresql.org/docs/current/sql-copy.html, "Binary Format".
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterable, Iterator

# After the signature the flags and the length of an extension, of which there is none
HEADER = b"PGCOPY\n\xff\r\n\0" + struct.pack("!ii", 0, 0)
TRAILER = struct.pack("!h", -1)
# The server works on a message once it has all of it, and the socket holds about 200 KiB of the next ones
PIECE_BYTES = 1 << 16
MESSAGE_BYTES = 1 << 17
_count, _length = struct.Struct("!h"), struct.Struct("!i")


def encode(rows: Iterable[tuple[bytes | None, ...]]) -> Iterator[bytes]:
    """Yield the stream in pieces; a value is its bytes (text in the client's encoding, bytea as it is) or None.

    A piece is a value of 64 KiB or more as it is, or smaller ones in one, together less than twice that.
    """
    parts, size = [HEADER], len(HEADER)
    for row in rows:
        parts.append(_count.pack(len(row)))
        for value in row:
            parts.append(_length.pack(-1 if value is None else len(value)))
            # NULL and an empty value have a length, -1 or 0, and nothing behind it
            if not value:
                continue
            if len(value) >= PIECE_BYTES:
                yield b"".join(parts)
                yield value
                parts, size = [], 0
            else:
                parts.append(value)
                size += len(value)
        if size >= PIECE_BYTES:
            yield b"".join(parts)
            parts, size = [], 0
    yield b"".join([*parts, TRAILER])


class Stream(io.RawIOBase):
    """A file to read once, over an iterator of pieces.

    psycopg2 reports whatever `read` raises as an error of the server; `error` keeps the real one (Ctrl-C too).
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = memoryview(b"")
        self.error: BaseException | None = None

    def read(self, size: int = -1, /) -> bytes:
        """Return up to `size` bytes (a negative size: any number), at the end none."""
        if not self._rest:
            piece = self._next()
            if size < 0 or len(piece) <= size:
                return piece
            # A view: slices of bytes would copy all the rest at each read
            self._rest = memoryview(piece)
        part, self._rest = self._rest[:size], self._rest[size:]
        return bytes(part)

    def _next(self) -> bytes:
        try:
            return next(self._pieces, b"")
        except BaseException as err:
            self.error = err
            raise


class Decoder:
    """A file to write to, which hands on the values of each row."""

    def __init__(self, take: Callable[[list[bytes | None]], None]) -> None:
        self._take = take
        self._begun = False

    def write(self, data: bytes) -> None:
        """Read a message of the server, which sends one for each row; the header comes with the first."""
        at, self._begun = 0 if self._begun else len(HEADER), True
        while at < len(data):
            (columns,) = _count.unpack_from(data, at)
            at += _count.size
            values: list[bytes | None] = []
            for _ in range(columns):
                (length,) = _length.unpack_from(data, at)
                at += _length.size
                values.append(None if length < 0 else data[at : at + length])
                at += max(length, 0)
            if columns >= 0:
                self._take(values)
