"""The binary form of COPY: its bytes, its pieces, errors on the way, and rows read again."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from dbinfer.database.copy import HEADER, PIECE_BYTES, TRAILER, Decoder, Stream, encode

EXPECTED = (
    b"PGCOPY\n\xff\r\n\0" + bytes(8)
    + b"\0\x03" + b"\0\0\0\x01a" + b"\0\0\0\0" + b"\xff\xff\xff\xff"
    + b"\0\x01" + b"\0\0\0\x02bc"
    + b"\xff\xff"
)  # fmt: skip


def test_bytes_of_the_format() -> None:
    assert b"".join(encode([(b"a", b"", None), (b"bc",)])) == EXPECTED


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_read_gives_at_most_what_is_asked(size: int) -> None:
    file = Stream(encode([(b"a", b"", None), (b"bc",)]))
    pieces = list(iter(lambda: file.read(size), b""))
    assert b"".join(pieces) == EXPECTED
    assert max(map(len, pieces)) <= size


def test_pieces_are_neither_many_nor_large(subtests: pytest.Subtests) -> None:
    for length in [PIECE_BYTES // 3, PIECE_BYTES - 1, PIECE_BYTES, 3 * PIECE_BYTES]:
        with subtests.test(length=length):
            rows = [(b"a", bytes([number]) * length, b"end") for number in range(10)]
            pieces = list(encode(rows))
            wanted = [
                b"\0\x03\0\0\0\x01a" + struct.pack("!i", length) + image + b"\0\0\0\x03end"
                for _, image, _ in rows
            ]
            assert b"".join(pieces) == HEADER + b"".join(wanted) + TRAILER
            assert len(pieces) <= 2 * len(rows) + 1
            assert max(map(len, pieces)) < max(2 * PIECE_BYTES, length + 1)


def test_the_real_error_is_kept() -> None:
    def rows() -> Iterator[tuple[bytes]]:
        yield (b"a",)
        raise KeyboardInterrupt

    stream = Stream(encode(rows()))
    with pytest.raises(KeyboardInterrupt):
        stream.read(1 << 20)
    assert isinstance(stream.error, KeyboardInterrupt)


def test_rows_are_read_as_they_come() -> None:
    rows = [[b"a", b"", None], [b"bc"], [], [bytes(PIECE_BYTES)]]
    messages = [b"".join(encode([tuple(row)]))[len(HEADER) : -len(TRAILER)] for row in rows]
    found: list[list[bytes | None]] = []
    decoder = Decoder(found.append)
    for number, message in enumerate(messages):
        decoder.write(message if number else HEADER + message)
        assert found == rows[: number + 1]
    decoder.write(TRAILER)
    assert found == rows
    Decoder(found.append).write(HEADER + TRAILER)
    assert found == rows
