"""Damages files: bits, lengths, and the pieces that each format is made of, in ways that decoders stumble over."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Iterator

import numpy as np
from seeds import FORMATS, seeds

Random = np.random.Generator
ABSURD = (0, 1, 2, 7, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x10000, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF)


def _place(data: bytes, rng: Random) -> int:
    """Return an offset, half of the time within the header."""
    end = len(data) if rng.random() < 0.5 else min(len(data), 128)
    return int(rng.integers(0, max(1, end)))


def flip_bits(data: bytes, rng: Random) -> bytes:
    bad = bytearray(data)
    for _ in range(int(rng.integers(1, 12))):
        bad[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return bytes(bad)


def set_bytes(data: bytes, rng: Random) -> bytes:
    bad = bytearray(data)
    for _ in range(int(rng.integers(1, 6))):
        bad[_place(data, rng)] = int(rng.choice((0, 1, 0x7F, 0x80, 0xFE, 0xFF, int(rng.integers(256)))))
    return bytes(bad)


def absurd_number(data: bytes, rng: Random) -> bytes:
    """Write a number that is at the edge of its type somewhere, big or little end first."""
    form = str(rng.choice(("<H", ">H", "<I", ">I")))
    value = int(rng.choice(ABSURD)) & ((1 << 8 * struct.calcsize(form)) - 1)
    at = _place(data, rng)
    return data[:at] + struct.pack(form, value) + data[at + struct.calcsize(form) :]


def truncate(data: bytes, rng: Random) -> bytes:
    return data[: int(rng.integers(0, len(data)))]


def cut_out(data: bytes, rng: Random) -> bytes:
    at, count = _place(data, rng), int(rng.integers(1, 64))
    return data[:at] + data[at + count :]


def repeat_range(data: bytes, rng: Random) -> bytes:
    at, count = _place(data, rng), int(rng.integers(1, 200))
    return data[:at] + data[at : at + count] * int(rng.integers(2, 40)) + data[at + count :]


def insert_noise(data: bytes, rng: Random) -> bytes:
    at = _place(data, rng)
    return data[:at] + rng.bytes(int(rng.integers(1, 64))) + data[at:]


def splice(data: bytes, rng: Random) -> bytes:
    """Go on with a part of a file of any format."""
    other = _other(rng)
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def inside(data: bytes, rng: Random) -> bytes:
    """Put a file of any format into the middle."""
    at = _place(data, rng)
    return data[:at] + _other(rng) + data[at:]


def _other(rng: Random) -> bytes:
    found = seeds(str(rng.choice(FORMATS)))
    return found[int(rng.integers(len(found)))]


def jpeg_pieces(data: bytes) -> list[bytes]:
    """Return the segments, each scan with its data."""
    cuts, at = [0], 2
    while at + 4 <= len(data) and data[at] == 0xFF:
        cuts.append(at)
        at += 2 + int.from_bytes(data[at + 2 : at + 4], "big")
        while at + 1 < len(data) and not (data[at] == 0xFF and data[at + 1] not in (0, *range(0xD0, 0xD8))):
            at += 1
        if data[at : at + 2] == b"\xff\xd9":
            cuts.append(at)
            break
    return _cut(data, cuts)


def png_pieces(data: bytes) -> list[bytes]:
    cuts, at = [0], 8
    while at + 8 <= len(data):
        cuts.append(at)
        at += 12 + int.from_bytes(data[at : at + 4], "big")
    return _cut(data, cuts)


def webp_pieces(data: bytes) -> list[bytes]:
    cuts, at = [0], 12
    while at + 8 <= len(data):
        cuts.append(at)
        length = int.from_bytes(data[at + 4 : at + 8], "little")
        at += 8 + length + (length & 1)
    return _cut(data, cuts)


def gif_pieces(data: bytes) -> list[bytes]:
    colours = 3 << (data[10] & 7) + 1 if data[10] & 0x80 else 0
    cuts, at = [0], 13 + colours
    while at < len(data) and data[at] in (0x21, 0x2C):
        cuts.append(at)
        at += 2 if data[at] == 0x21 else 11 + (3 << (data[at + 9] & 7) + 1 if data[at + 9] & 0x80 else 0)
        while at < len(data) and data[at]:
            at += 1 + data[at]
        at += 1
    return _cut(data, [*cuts, min(at, len(data))])


def tiff_pieces(data: bytes) -> list[bytes]:
    """Return the entries of the first directory between what lies before and behind it."""
    end = "<" if data[:2] == b"II" else ">"
    big = 43 in data[2:4]
    at = struct.unpack_from(end + ("Q" if big else "I"), data, 8 if big else 4)[0]
    count = struct.unpack_from(end + ("Q" if big else "H"), data, at)[0]
    start, entry = at + (8 if big else 2), 20 if big else 12
    return _cut(data, [0, *(start + entry * n for n in range(min(count, 200) + 1))])


def bmp_pieces(data: bytes) -> list[bytes]:
    start = min(len(data), int.from_bytes(data[10:14], "little"))
    return _cut(data, [0, 14, 18, 22, 26, 28, 30, 34, *range(start, len(data), 64)])


def box_pieces(data: bytes) -> list[bytes]:
    """Return the boxes, those within meta and of the pictures' properties one by one."""
    cuts, inner = [0], {b"meta": 12, b"iprp": 8, b"ipco": 8}

    def walk(at: int, end: int) -> None:
        while at + 8 <= end:
            cuts.append(at)
            size, kind = int.from_bytes(data[at : at + 4], "big"), data[at + 4 : at + 8]
            if kind in inner:
                walk(at + inner[kind], min(at + size, end))
            at += max(size, 8)

    walk(0, len(data))
    return _cut(data, cuts)


def _cut(data: bytes, cuts: list[int]) -> list[bytes]:
    return [data[a:b] for a, b in zip(cuts, [*cuts[1:], len(data)], strict=True)]


PIECES: dict[str, Callable[[bytes], list[bytes]]] = {
    "JPEG": jpeg_pieces, "PNG": png_pieces, "BMP": bmp_pieces, "TIFF": tiff_pieces, "WebP": webp_pieces,
    "GIF": gif_pieces, "AVIF": box_pieces, "HEIC": box_pieces,
}  # fmt: skip


def rearrange(kind: str, data: bytes, rng: Random) -> bytes:
    """Duplicate, drop, exchange, damage or borrow whole pieces, once to four times."""
    pieces = PIECES[kind](data)
    for _ in range(int(rng.integers(1, 5))):
        if len(pieces) < 3:
            break
        a, b = (int(n) for n in rng.integers(1, len(pieces), 2))
        what = int(rng.integers(6))
        if what == 0:
            pieces[a:a] = [pieces[b]] * int(rng.choice((1, 2, 5, 60)))
        elif what == 1:
            del pieces[a]
        elif what == 2:
            pieces[a], pieces[b] = pieces[b], pieces[a]
        elif what == 3:
            pieces[a] = absurd_number(pieces[a], rng) if pieces[a] else b""
        elif what == 4:
            pieces[a] = flip_bits(pieces[a], rng) if pieces[a] else b""
        else:
            found = seeds(kind)
            other = PIECES[kind](found[int(rng.integers(len(found)))])
            pieces[a:a] = [other[int(rng.integers(len(other)))]]
    return b"".join(pieces)


def mend(kind: str, data: bytes, rng: Random) -> bytes:
    """Make the sums and lengths right that would stop a decoder at once: it shall come further."""
    if kind == "PNG" and rng.random() < 0.8:
        pieces = [
            p[:-4] + struct.pack(">I", zlib.crc32(p[4:-4])) if len(p) >= 12 else p
            for p in png_pieces(data)[1:]
        ]
        return data[:8] + b"".join(pieces)
    if kind == "WebP" and rng.random() < 0.8 and len(data) > 12:
        return data[:4] + struct.pack("<I", len(data) - 8) + data[8:]
    if kind == "JPEG" and rng.random() < 0.5:
        return data + b"\xff\xd9"
    return data


ANYWHERE = (
    flip_bits,
    set_bytes,
    absurd_number,
    truncate,
    cut_out,
    repeat_range,
    insert_noise,
    splice,
    inside,
)


def mutants(kind: str, count: int, seed: int) -> Iterator[tuple[str, bytes]]:
    """Yield (name, damaged file); the name says how to make it again."""
    found = seeds(kind)
    for number in range(count):
        rng = np.random.default_rng([seed, FORMATS.index(kind), number])
        data = found[int(rng.integers(len(found)))]
        for _ in range(int(rng.integers(1, 4))):
            change = int(rng.integers(len(ANYWHERE) * 2))
            if not data:
                break
            try:
                data = ANYWHERE[change](data, rng) if change < len(ANYWHERE) else rearrange(kind, data, rng)
            except (IndexError, struct.error, OverflowError, MemoryError):
                continue  # what is damaged already may have no pieces
            data = data[: 1 << 22]
        yield f"{kind} {seed}/{number}", mend(kind, data, rng)
