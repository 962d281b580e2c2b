"""Files that are two things at once: what a file's first bytes say decides, and the rest of it is read by nobody."""

from __future__ import annotations

import io
import struct
import sys
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path

import hostile_images as hostile
import numpy as np
import pytest
from PIL import Image
from seeds import FORMATS

from dbinfer.base.errors import DbinferError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.images.files import Refused, found_file, read
from dbinfer.images.sources import kind_of
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image.decode import decode
from dbinfer_udf.image.header import read_header

sys.path.append(str(Path(__file__).parents[1] / "db"))
import tiny_models

SIDE = (24, 16)  # of the picture that a file begins with; all others within it are larger
SCRIPT = b"*/=1;alert(1);/*<script>alert(1)</script>"


def picture(kind: str, size: tuple[int, int] = SIDE, **options: object) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", size, (200, 30, 10)).save(target, "HEIF" if kind == "HEIC" else kind, **options)
    return target.getvalue()


LARGE = {kind: picture(kind, (300, 200)) for kind in FORMATS}


def zipped() -> bytes:
    target = io.BytesIO()
    with zipfile.ZipFile(target, "w") as packed:
        packed.writestr("inner.png", LARGE["PNG"])
    return target.getvalue()


TAILS = {
    **LARGE,
    "zip": zipped(),
    "script": SCRIPT,
    "PDF": b"%PDF-1.4\n%%EOF",
    "SVG": b"<svg onload='alert(1)'/>",
}


def test_what_follows_a_picture_is_not_read(subtests: pytest.Subtests) -> None:
    """A second picture, an archive or a script behind the end of the first: neither its size nor its pixels count."""
    for kind in FORMATS:
        with subtests.test(kind=kind):
            alone = picture(kind)
            for name, tail in TAILS.items():
                whole = alone + tail
                header = read_header(whole)
                assert (header.format, header.size) == (kind, SIDE), name
                assert np.array_equal(decode(whole), decode(alone)), name


def exif(inner: bytes) -> bytes:
    """Return EXIF data, which is a TIFF of its own, with a file within it."""
    found = Image.Exif()
    found[0x10F] = "maker"
    return bytes(found.tobytes() + b"\0\0" + inner)


def chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))


def behind(data: bytes, at: int, more: bytes) -> bytes:
    return data[:at] + more + data[at:]


def within() -> dict[str, bytes]:
    """Return pictures that hold other files in their notes."""
    # a JPEG's segment has 64 KiB at most
    small = {kind: data for kind, data in LARGE.items() if len(data) < 60_000}
    found = {f"a {inner} in a JPEG's EXIF": picture("JPEG", exif=exif(data)) for inner, data in small.items()}
    png, gif = picture("PNG"), picture("GIF")
    found |= {
        f"a {inner} in a PNG's note": behind(png, 33, chunk(b"tEXt", b"a\0" + data))
        for inner, data in LARGE.items()
    }
    comment = b"!\xfe" + bytes([len(SCRIPT)]) + SCRIPT + b"\0"
    at = gif.index(b",", 13)
    return {
        **found,
        "a script in a GIF": behind(gif, at, comment),
        "a script in a JPEG": picture("JPEG", comment=SCRIPT),
    }


def test_what_lies_within_a_pictures_notes_is_not_decoded() -> None:
    for name, data in within().items():
        assert read_header(data).size == SIDE, name
        assert decode(data).shape == (SIDE[1], SIDE[0], 3), name


def second_headers() -> dict[str, bytes]:
    """Return pictures with two headers that differ: ours read the one, a decoder may believe the other."""
    png, jpeg = picture("PNG"), picture("JPEG")
    ihdr = LARGE["PNG"][8:33]
    sof = jpeg.index(b"\xff\xc0")
    length = 2 + struct.unpack(">H", jpeg[sof + 2 : sof + 4])[0]
    larger = bytearray(jpeg[sof : sof + length])
    larger[5:9] = struct.pack(">HH", 2000, 3000)
    gif = picture("GIF")
    screen = gif[:6] + struct.pack("<HH", 3000, 2000) + gif[10:]
    tags = [(256, 4, 1, 3000), (257, 4, 1, 2000)]
    one = hostile.rgb_tiff(*SIDE, zlib.compress(bytes(SIDE[0] * SIDE[1] * 3)))
    two = hostile.rgb_tiff(*SIDE, zlib.compress(bytes(SIDE[0] * SIDE[1] * 3)), [*tags, (256, 4, 1, SIDE[0])])
    webp = LARGE["WebP"]
    canvas = b"VP8X" + struct.pack("<II", 10, 0) + (23).to_bytes(3, "little") + (15).to_bytes(3, "little")
    size = struct.pack("<I", len(webp) + 10)
    return {
        "a PNG with two": behind(png, 33, ihdr),
        "a PNG with a smaller one behind": behind(LARGE["PNG"], 33, png[8:33]),
        "a JPEG with two": behind(jpeg, sof, bytes(larger)),
        "a JPEG with the larger behind": behind(jpeg, sof + length, bytes(larger)),
        "a GIF whose frame is smaller than its screen": screen,
        "a WebP whose canvas is smaller than its picture": b"RIFF" + size + b"WEBP" + canvas + webp[12:],
        "a TIFF with one": one,
        "a TIFF with two sizes": two,
    }  # fmt: skip


def test_of_two_headers_that_differ_one_counts_or_none() -> None:
    """What is decoded has the size for which its cost was counted."""
    for name, data in second_headers().items():
        found = decoded(data)
        if isinstance(found, ImageError):
            assert found.sqlstate in ("22P03", "54000"), name
        else:
            assert found.shape[:2] == read_header(data).size[::-1], name


def decoded(data: bytes) -> np.ndarray | ImageError:
    try:
        return decode(data)
    except ImageError as err:
        return err


def packed(first: str) -> bytes:
    target = io.BytesIO()
    with tarfile.open(fileobj=target, mode="w") as tar:
        info = tarfile.TarInfo(first)
        info.size = len(LARGE["PNG"])
        tar.addfile(info, io.BytesIO(LARGE["PNG"]))
    return target.getvalue()


def test_load_takes_a_picture_with_an_archive_behind_it_for_a_picture(tmp_path: Path) -> None:
    file = tmp_path / "a.png"
    for kind in FORMATS:
        file.write_bytes(whole := picture(kind) + zipped())
        assert zipfile.is_zipfile(file)
        assert kind_of(file) == ""
        found = read(found_file(file, None))
        assert not isinstance(found, Refused)
        assert found[1] == whole
    # the name of a tar's first member is all that stands at its beginning
    for name in ("GIF89a.gif", "BM.bmp"):
        file.write_bytes(packed(name))
        assert kind_of(file) == "tar"


def onnx_bytes(folder: Path) -> bytes:
    return tiny_models.constant(folder, 1).read_bytes()


CLAIMS: dict[str, Callable[[Path], bytes]] = {
    ".onnx": lambda folder: LARGE["PNG"],
    ".tflite": onnx_bytes,
    ".keras": lambda folder: LARGE["JPEG"] + zipped(),
    ".h5": lambda folder: zipped(),
    ".xml": lambda folder: b"\x08\x08" + LARGE["PNG"],
}


@pytest.mark.parametrize("ending", CLAIMS)
@pytest.mark.wide
def test_a_model_file_that_is_something_else_is_refused_in_a_sentence(tmp_path: Path, ending: str) -> None:
    source = tmp_path / f"net{ending}"
    source.write_bytes(CLAIMS[ending](tmp_path))
    with pytest.raises(DbinferError) as caught:
        convert(source, tmp_path / "out.xml", ConvertOptions())
    assert "\n" not in caught.value.message
    assert not (tmp_path / "out.xml").exists()
