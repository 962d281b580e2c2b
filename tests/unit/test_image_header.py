"""Headers of all formats: what they say, and what is refused."""

from __future__ import annotations

import contextlib
import itertools
import struct

import cv2
import numpy as np
import pytest
from image_files import HEIGHT, WIDTH, encode, picture

from dbinfer_udf.errors import ImageError
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.image.header import FORMATS, HEAD_BYTES, read_header, sniff

CASES = [
    ("JPEG", "RGB", 3, {}),
    ("JPEG", "RGB", 3, {"progressive": True}),
    ("JPEG", "L", 1, {}),
    ("JPEG", "CMYK", 4, {}),
    ("PNG", "RGB", 3, {}),
    ("PNG", "L", 1, {}),
    ("PNG", "LA", 2, {}),
    ("PNG", "RGBA", 4, {}),
    ("PNG", "P", 3, {}),
    ("PNG", "1", 1, {}),
    ("BMP", "RGB", 3, {}),
    ("BMP", "RGBA", 4, {}),
    ("BMP", "P", 3, {}),
    ("TIFF", "RGB", 3, {}),
    ("TIFF", "L", 1, {}),
    ("TIFF", "RGBA", 4, {}),
    ("TIFF", "P", 3, {}),
    ("TIFF", "RGB", 3, {"big_tiff": True}),
    ("WebP", "RGB", 3, {}),
    ("WebP", "RGB", 3, {"lossless": True}),
    ("WebP", "RGBA", 4, {"lossless": True}),
    ("WebP", "RGBA", 4, {}),
    ("GIF", "P", 3, {}),
    ("AVIF", "RGB", 3, {}),
    ("AVIF", "RGBA", 4, {}),
    ("AVIF", "L", 1, {}),
    ("HEIC", "RGB", 3, {}),
    ("HEIC", "RGBA", 4, {}),
]


def see_through(mode: str):
    image = picture().convert(mode)
    if mode == "RGBA":
        image.putalpha(128)
    return image


def test_says_what_the_file_holds(subtests: pytest.Subtests) -> None:
    for kind, mode, channels, options in CASES:
        with subtests.test(kind=kind, mode=mode, channels=channels, options=options):
            data = encode(see_through(mode), kind, **options)
            header = read_header(data)
            assert header[:6] == (kind, WIDTH, HEIGHT, channels, len(data), 1)
            assert header.complete


def test_orientation(subtests: pytest.Subtests) -> None:
    for orientation, kind in itertools.product(range(1, 9), ["JPEG", "PNG", "TIFF", "WebP", "AVIF", "HEIC"]):
        with subtests.test(orientation=orientation, kind=kind):
            header = read_header(encode(picture(), kind, orientation))
            assert (header.width, header.height, header.orientation) == (WIDTH, HEIGHT, orientation)
            assert header.size == ((HEIGHT, WIDTH) if orientation >= 5 else (WIDTH, HEIGHT))


@pytest.mark.parametrize("orientation", [0, 9, 65535])
def test_orientation_out_of_range_is_upright(orientation) -> None:
    good = encode(picture(), "JPEG", 6)
    tag = b"\x01\x12\x00\x03\x00\x00\x00\x01"
    at = good.index(tag) + len(tag)
    assert read_header(good[:at] + struct.pack(">H", orientation) + good[at + 2 :]).orientation == 1


def test_little_endian_exif_and_tiff() -> None:
    tiff = b"II*\0\x08\0\0\0" + struct.pack("<H", 1) + struct.pack("<HHIHxx", 274, 3, 1, 8)
    plain = encode(picture(), "JPEG")
    exif = b"\xff\xe1" + struct.pack(">H", len(tiff) + 8) + b"Exif\0\0" + tiff
    assert read_header(plain[:2] + exif + plain[2:]).orientation == 8


def test_big_endian_tiff() -> None:
    tags = [(256, 4, 70000), (257, 4, 5), (277, 3, 3 << 16), (274, 3, 3 << 16)]
    data = b"MM\0*\0\0\0\x08" + struct.pack(">H", len(tags))
    data += b"".join(struct.pack(">HHII", tag, kind, 1, value) for tag, kind, value in tags)
    assert read_header(data)[:6] == ("TIFF", 70000, 5, 3, len(data), 3)


def test_jpeg_with_a_thumbnail_gives_the_size_of_the_picture() -> None:
    plain = encode(picture(), "JPEG")
    thumbnail = encode(picture().resize((16, 12)), "JPEG")
    app2 = b"\xff\xe2" + struct.pack(">H", len(thumbnail) + 2) + thumbnail
    assert read_header(plain[:2] + app2 + plain[2:])[1:3] == (WIDTH, HEIGHT)


def test_jpeg_with_fill_bytes_between_segments() -> None:
    plain = encode(picture(), "JPEG")
    assert read_header(plain[:2] + b"\xff\xff\xff" + plain[2:])[1:3] == (WIDTH, HEIGHT)


def test_sixteen_bit_and_top_down_files() -> None:
    deep = np.zeros((5, 7, 3), np.uint16)
    for kind in (".png", ".tiff"):
        assert read_header(cv2.imencode(kind, deep)[1].tobytes())[1:4] == (7, 5, 3)
    bmp = bytearray(encode(picture(), "BMP"))
    struct.pack_into("<i", bmp, 22, -HEIGHT)
    assert read_header(bytes(bmp))[1:3] == (WIDTH, HEIGHT)


def test_largest_sizes() -> None:
    png = bytearray(encode(picture(), "PNG"))
    struct.pack_into(">II", png, 16, 2**31 - 1, 2**31 - 1)
    assert read_header(bytes(png))[1:3] == (2**31 - 1, 2**31 - 1)


def test_no_image(subtests: pytest.Subtests) -> None:
    for data in [
        b"hello",
        b"%PDF-1.7",
        b"\0",
        b"\xff",
        b"\xff\xd8x",
        b"BMxx",
        b"BM" + b"x" * 99,
        b"II" + b"x" * 99,
        b"RIFF1234WAVE",
        b"GIF90a",
        b"\x89PNX" + b"x" * 99,
        b"\0\0\0\x20ftypisom\0\0\0\0isomiso2avc1mp41" + b"x" * 99,
    ]:
        with subtests.test(data=data):
            with pytest.raises(ImageError, match=r"not an image|cut off") as caught:
                read_header(data)
            if "not an image" in caught.value.message:
                assert repr(data[:8]) in caught.value.message
                assert all(name in caught.value.hint for name in FORMATS)


def test_the_first_bytes_tell_the_format(subtests: pytest.Subtests) -> None:
    for kind, mode, channels, options in CASES:
        with subtests.test(kind=kind, mode=mode, channels=channels, options=options):
            data = encode(see_through(mode), kind, **options)
            assert sniff(data[:HEAD_BYTES]) == kind
            for length in range(HEAD_BYTES):
                assert sniff(data[:length]) in (kind, None)


def test_bmps_are_those_that_opencv_reads(subtests: pytest.Subtests) -> None:
    for size in [*range(0, 70), 108, 124, 2**31]:
        with subtests.test(size=size):
            header = (
                struct.pack("<IHHHH", 12, 8, 4, 1, 24)
                if size == 12
                else struct.pack("<IiiHH24x", size, 8, 4, 1, 24)
            )
            whole = header[: min(size, 200)].ljust(min(size, 200), b"\0")
            data = (
                b"BM" + struct.pack("<IHHI", 14 + len(whole) + 96, 0, 0, 14 + len(whole)) + whole + bytes(96)
            )
            if sniff(data) == "BMP":
                assert read_header(data)[:3] == ("BMP", 8, 4)
                assert cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR).shape == (4, 8, 3)
            else:
                with pytest.raises(ImageError, match="not an image"):
                    read_header(data)


def test_no_format_is_what_is_no_image() -> None:
    rng = np.random.default_rng(3)
    for data in [encode(picture(), kind) for kind in FORMATS]:
        for _ in range(300):
            bad = bytearray(data)
            bad[rng.integers(HEAD_BYTES)] = rng.integers(256)
            try:
                read_header(bytes(bad))
                refused = False
            except ImageError as err:
                refused = "not an image" in err.message
            assert refused == (sniff(bytes(bad[:HEAD_BYTES])) is None)


def test_no_bytes() -> None:
    with pytest.raises(ImageError, match="empty: it has 0 bytes") as caught:
        read_header(b"")
    assert caught.value.sqlstate == "22P03"
    assert "NULL" in caught.value.hint


def test_a_header_cut_anywhere_is_an_image_error(subtests: pytest.Subtests) -> None:
    for kind, mode, channels, options in CASES:
        with subtests.test(kind=kind, mode=mode, channels=channels, options=options):
            data = encode(see_through(mode), kind, **options)
            for length in range(min(len(data), 700)):
                try:
                    header = read_header(data[:length])
                except ImageError:
                    continue
                assert header[1:4] == (WIDTH, HEIGHT, channels)


def test_damaged_headers_raise_nothing_else(subtests: pytest.Subtests) -> None:
    for kind, mode, channels, options in CASES:
        with subtests.test(kind=kind, mode=mode, channels=channels, options=options):
            data = encode(see_through(mode), kind, orientation=0 if kind in ("BMP", "GIF") else 6, **options)
            rng = np.random.default_rng(7)
            for _ in range(400):
                bad = bytearray(data)
                for at in rng.integers(2, min(len(data), 400), 6):
                    bad[at] = rng.integers(256)
                with contextlib.suppress(ImageError):
                    assert read_header(bytes(bad)).width > 0


def test_no_pixels() -> None:
    png = bytearray(encode(picture(), "PNG"))
    struct.pack_into(">I", png, 16, 0)
    with pytest.raises(ImageError, match="has no pixels: 0 x 64"):
        read_header(bytes(png))


@pytest.mark.parametrize("kind", ["AVIF", "HEIC"])
def test_the_limit_on_boxes_is_told_as_it_is(kind: str) -> None:
    limits = DEFAULT_LIMITS._replace(max_segments=3)
    with pytest.raises(ImageError, match="more than 3 boxes, but the limit is 3"):
        read_header(encode(picture(), kind), limits)
