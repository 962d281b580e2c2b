"""The binary COPY stream: its bytes, its pieces, and errors on the way."""

from __future__ import annotations

import io
from collections.abc import Iterator

import pytest

from dbinfer.load.copybinary import Stream, encode

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
    file = io.BufferedReader(Stream(encode([(b"a", b"", None), (b"bc",)])), size)
    pieces = list(iter(lambda: file.read(size), b""))
    assert b"".join(pieces) == EXPECTED
    assert max(map(len, pieces)) <= size


def test_the_real_error_is_kept() -> None:
    def rows() -> Iterator[tuple[bytes]]:
        yield (b"a",)
        raise KeyboardInterrupt

    stream = Stream(encode(rows()))
    with pytest.raises(KeyboardInterrupt):
        io.BufferedReader(stream, 1 << 20).read(1 << 20)
    assert isinstance(stream.error, KeyboardInterrupt)
