"""Image files that cost far more than their size shows, made byte by byte, and the pieces they are made of."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable, Sequence

import cv2
import numpy as np

Tag = tuple[int, int, int, int | bytes]  # tag, kind, count, value (bytes: stored behind the directory)
GRAYS = b"".join(bytes((level, level, level, 0)) for level in range(256))


def gif(
    canvas: tuple[int, int], frame: tuple[int, int], codes: bytes, least: int = 2, before: bytes = b""
) -> bytes:
    """Return a GIF of one frame in two colours; `before` stands between its header and the frame."""
    head = b"GIF89a" + struct.pack("<HHBBB", *canvas, 0x80, 0, 0) + b"\0\0\0\xff\xff\xff"
    return head + before + gif_frame(frame, codes, least) + b";"


def gif_frame(size: tuple[int, int], codes: bytes, least: int = 2) -> bytes:
    blocks = b"".join(
        bytes([len(codes[at : at + 255])]) + codes[at : at + 255] for at in range(0, len(codes), 255)
    )
    return b"," + struct.pack("<HHHHB", 0, 0, *size, 0) + bytes([least]) + blocks + b"\0"


# 10000 x 10000 pixels of one colour, lossless
SOLID_WEBP = bytes.fromhex("524946461e000000574542505650384c110000002f0fe7c31907d0842634a1098188e87f0000")
ONE_PIXEL = b"\x44\x01"  # clear, 0, end: the codes of one black pixel


def lzw(codes: Sequence[tuple[int, int]]) -> bytes:
    """Return (code, bits) one behind the other, low bits first."""
    value = bits = 0
    for code, width in codes:
        value |= code << bits
        bits += width
    return value.to_bytes((bits + 7) // 8, "little")


def bmp(size: tuple[int, int], bits: int, data: bytes, compression: int = 0, palette: bytes = b"") -> bytes:
    header = struct.pack("<IiiHHIIiiII", 40, *size, 1, bits, compression, 0, 0, 0, 0, 0) + palette
    return b"BM" + struct.pack("<IHHI", 14 + len(header) + len(data), 0, 0, 14 + len(header)) + header + data


def tiff(tags: Sequence[Tag], pixels: bytes = b"", next_page: int = 0, big: bool = False) -> bytes:
    """Return a TIFF of one directory in the order given; a value of -1 becomes the offset of the pixels."""
    head = b"II+\0\x08\0\0\0" + struct.pack("<Q", 16) if big else b"II*\0" + struct.pack("<I", 8)
    entry, room = (20, 8) if big else (12, 4)
    start = len(head) + (8 if big else 2) + entry * len(tags) + room
    stored = b""
    rows = []
    for tag, kind, count, value in tags:
        if isinstance(value, bytes):
            at = start + len(pixels) + len(stored)
            stored += value
        else:
            at = start if value == -1 else value
        rows.append(struct.pack("<HHQQ" if big else "<HHII", tag, kind, count, at))
    size = struct.pack("<Q" if big else "<H", len(tags))
    return head + size + b"".join(rows) + struct.pack("<Q" if big else "<I", next_page) + pixels + stored


def rgb_tiff(width: int, height: int, pixels: bytes, more: Sequence[Tag] = (), compression: int = 8) -> bytes:
    """Return a TIFF of three channels in one strip."""
    tags: list[Tag] = [
        (256, 4, 1, width), (257, 4, 1, height), (258, 3, 1, 8), (259, 3, 1, compression), (262, 3, 1, 2),
        (273, 4, 1, -1), (277, 3, 1, 3), (278, 4, 1, height), (279, 4, 1, len(pixels)),
    ]  # fmt: skip
    changed = {tag for tag, *_ in more}
    return tiff(
        sorted([tag for tag in tags if tag[0] not in changed] + list(more), key=lambda tag: tag[0]), pixels
    )


def lab_strips(count: int) -> bytes:
    """Return a TIFF of CIE Lab in strips of one row, for each of which libtiff makes its tables anew."""
    offsets, sizes = np.full(count, 8 + 2 + 12 * 10 + 4, "<u4").tobytes(), np.full(count, 48, "<u4").tobytes()
    tags: list[Tag] = [
        (256, 4, 1, 16), (257, 4, 1, count), (258, 3, 3, struct.pack("<HHH", 8, 8, 8)), (259, 3, 1, 1),
        (262, 3, 1, 8), (273, 4, count, offsets), (277, 3, 1, 3), (278, 4, 1, 1), (279, 4, count, sizes),
        (284, 3, 1, 1),
    ]  # fmt: skip
    return tiff(tags, bytes(48))


def tiff_of_pages(count: int) -> bytes:
    """Return a TIFF of many pages of one tag each behind a sound first one."""
    first = rgb_tiff(8, 8, zlib.compress(bytes(192)))
    at = first.index(b"\x17\x01\x04\0") + 12  # behind the last entry, 279
    page = struct.pack("<HHHII", 1, 256, 4, 1, 8)
    pages = [
        page + struct.pack("<I", len(first) + 18 * (n + 1) if n < count - 1 else 0) for n in range(count)
    ]
    return first[:at] + struct.pack("<I", len(first)) + first[at + 4 :] + b"".join(pages)


def png_chunk(kind: bytes, data: bytes = b"") -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def png(
    width: int, height: int, depth: int = 8, color: int = 2, before: bytes = b"", behind: bytes = b""
) -> bytes:
    """Return a black PNG; `before` and `behind` are chunks around its pixels."""
    samples = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    rows = bytes((1 + (width * samples * depth + 7) // 8) * height)
    header = png_chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, depth, color, 0, 0, 0))
    pixels = png_chunk(b"IDAT", zlib.compress(rows))
    return b"\x89PNG\r\n\x1a\n" + header + before + pixels + behind + png_chunk(b"IEND")


def animated_png(damage: bool = False) -> bytes:
    """Return a PNG of one picture and one more behind it; damaged, that one's first row has a filter that is none."""
    control = struct.pack(">IIIIIHHBB", 0, 8, 8, 0, 0, 1, 1, 0, 0)
    rows = zlib.compress(bytes([9 if damage else 0]) + bytes(8 * 33 - 1))
    later = png_chunk(b"fcTL", control) + png_chunk(b"fdAT", b"\0\0\0\1" + rows)
    return png(8, 8, 8, 6, before=png_chunk(b"acTL", struct.pack(">II", 2, 0)), behind=later)


def text_bomb(count: int) -> bytes:
    """Return text chunks of 8 kB that inflate to 8 MB each."""
    return png_chunk(b"zTXt", b"k\0\0" + zlib.compress(bytes(7_900_000), 9)) * count


def jpeg(width: int, height: int, progressive: bool = False) -> bytes:
    options = [cv2.IMWRITE_JPEG_PROGRESSIVE, int(progressive), cv2.IMWRITE_JPEG_SAMPLING_FACTOR, 0x111111]
    return cv2.imencode(".jpg", np.zeros((height, width, 3), np.uint8), options)[1].tobytes()


def many_scans(width: int, height: int, count: int) -> bytes:
    """Return a progressive JPEG whose first scan, which shows the whole picture, comes again and again."""
    data = jpeg(width, height, progressive=True)
    start = data.index(b"\xff\xda")
    stop = start + 2
    while True:
        stop = data.index(b"\xff", stop)
        if data[stop + 1]:
            break
        stop += 2
    return data[:start] + data[start:stop] * count + b"\xff\xd9"


def jpeg_with(segments: bytes) -> bytes:
    """Return a JPEG of 8 x 8 pixels with these bytes behind its first marker."""
    data = jpeg(8, 8)
    return data[:2] + segments + data[2:]


def scan_data(data: bytes) -> tuple[int, int]:
    """Return where the bytes of a JPEG's only scan begin and end."""
    start = data.index(b"\xff\xda")
    return start + 2 + struct.unpack_from(">H", data, start + 2)[0], len(data) - 2


def arithmetic_jpeg(width: int, height: int, size: int) -> bytes:
    """Return a JPEG of arithmetic coding that has so many bytes of noise."""
    data = jpeg(width, height).replace(b"\xff\xc0", b"\xff\xc9", 1)
    start, stop = scan_data(data)
    noise = np.random.default_rng(0).integers(0, 255, size, np.uint8).tobytes()
    return data[:start] + noise + data[stop:]


def tiff_of_jpegs(side: int, tile: int, one: bytes, more: Sequence[Tag] = ()) -> bytes:
    """Return a TIFF whose tiles are all the same bytes, a JPEG."""
    count = (side // tile) ** 2
    at: int | bytes = 8 + 2 + 12 * (10 + len(more)) + 4
    size: int | bytes = len(one)
    if count > 1:
        at, size = (np.full(count, value, "<u4").tobytes() for value in (at, size))
    tags: list[Tag] = [
        (256, 4, 1, side), (257, 4, 1, side), (258, 3, 1, 8), (259, 3, 1, 7), (262, 3, 1, 2), (277, 3, 1, 3),
        (322, 4, 1, tile), (323, 4, 1, tile), (324, 4, count, at), (325, 4, count, size), *more,
    ]  # fmt: skip
    return tiff(tags, one)


def overlapping_jpegs() -> bytes:
    """Return a TIFF of 64 tiles, each a JPEG of 20,000 segments that is a byte longer than the one before."""
    one = jpeg_with(b"\xff\xe0\0\2" * 20_000)
    data = tiff_of_jpegs(64, 8, one)
    same = np.full(64, len(one), "<u4")
    return data.replace(same.tobytes(), (same + np.arange(64, dtype="<u4")).tobytes())


def exif_of_entries(count: int) -> bytes:
    """Return an EXIF block whose directory is long, and turns nothing."""
    return b"II*\0\x08\0\0\0" + struct.pack("<H", count) + bytes(12 * count + 4)


def webp(chunks: bytes, flags: int = 2) -> bytes:
    """Return a WebP of the extended kind with a canvas of one pixel and these chunks."""
    body = b"WEBPVP8X" + struct.pack("<IB9x", 10, flags) + chunks
    return b"RIFF" + struct.pack("<I", len(body)) + body


BOMBS: dict[str, tuple[Callable[[], bytes], str, str]] = {
    # name: (file, what the error says, the setting that its hint names)
    "gif of 35 bytes": (lambda: gif((10000, 10000), (10000, 10000), b"\x4c\x01"), "bytes of memory", "expansion"),
    "gif canvas": (lambda: gif((10000, 10000), (1, 1), ONE_PIXEL), "bytes of memory", "expansion"),
    "gif tables": (lambda: gif((2000, 2000), (2000, 2000), lzw([(4, 3)] * 8) * 700_000), "emptied tables", "seconds"),
    "gif tables between pixels": (
        lambda: gif((2000, 2000), (2000, 2000), lzw([(256, 9), *[(1, 9)] * 15] * 8) * 9000, least=8),
        "emptied tables", "seconds",
    ),
    "gif frames": (lambda: gif((1, 1), (1, 1), ONE_PIXEL, before=gif_frame((1, 1), ONE_PIXEL) * 10_001),
                   "more than 10000 frames", "frames"),
    "gif extensions": (lambda: gif((1, 1), (1, 1), ONE_PIXEL, before=b"!\xfe\0" * 100_000), "blocks", "segments"),
    "gif small blocks": (lambda: gif((1, 1), (1, 1), ONE_PIXEL, before=b"!\xfe" + b"\1a" * 100_000 + b"\0"),
                         "blocks", "segments"),
    "bmp of 1 kB": (lambda: bmp((10000, 10000), 8, b"\0\1", 1, GRAYS), "bytes of memory", "expansion"),
    "tiff tags twice": (
        lambda: tiff([(256, 4, 1, 10000), (256, 4, 1, 8), (257, 4, 1, 10000), (257, 4, 1, 8), (258, 3, 1, 8),
                      (259, 3, 1, 8), (262, 3, 1, 2), (273, 4, 1, -1), (277, 3, 1, 3), (279, 4, 1, 6000)], bytes(6000)),
        "bytes of memory", "expansion",
    ),
    "tiff tile": (
        lambda: rgb_tiff(16, 16, bytes(768), [(322, 4, 1, 15000), (323, 4, 1, 15000), (324, 4, 1, -1)]),
        "bytes of memory", "expansion",
    ),
    "tiff strips": (lambda: rgb_tiff(1, 70_000, bytes(3), [(278, 4, 1, 1)], 1), "strips or tiles", "segments"),
    "tiff lab strips": (lambda: lab_strips(60_000), "seconds to decode", "seconds"),
    "tiff of jpegs": (
        lambda: tiff_of_jpegs(7168, 512, many_scans(512, 512, 90)), "seconds to decode", "seconds",
    ),
    "tiff of scans": (lambda: tiff_of_jpegs(512, 512, many_scans(512, 512, 101)), "101 scans", "scans"),
    "tiff of jpegs that overlap": (overlapping_jpegs, "more than 65536 segments", "segments"),
    "tiff pages": (lambda: tiff_of_pages(10_001), "more than 10000 pages", "frames"),
    "png text": (lambda: png(8, 8, before=text_bomb(300)), "seconds to decode", "seconds"),
    "png text behind": (lambda: png(8, 8, behind=text_bomb(300)), "seconds to decode", "seconds"),
    "png chunks": (lambda: png(8, 8, before=png_chunk(b"tRNS") * 70_000), "more than 65536 chunks", "segments"),
    "webp canvas": (lambda: SOLID_WEBP,
                    "bytes of memory", "expansion"),
    "webp chunks": (lambda: webp(b"JUNK\0\0\0\0" * 70_000), "more than 65536 chunks", "segments"),
    "webp frames": (lambda: webp(b"ANMF\0\0\0\0" * 10_001), "more than 10000", "frames"),
    "jpeg scans": (lambda: many_scans(512, 512, 101), "101 scans", "scans"),
    "jpeg scans of a large picture": (lambda: many_scans(7000, 7000, 99), "seconds to decode", "seconds"),
    "jpeg of arithmetic coding": (lambda: arithmetic_jpeg(5000, 5000, 20_000_000), "seconds to decode", "seconds"),
    "jpeg segments": (lambda: jpeg_with(b"\xff\xe0\0\2" * 70_000), "more than 65536 segments", "segments"),
    "jpeg fill bytes": (lambda: jpeg_with(b"\xff" * 70_000), "more than 65536 segments", "segments"),
}  # fmt: skip
