"""Tiles of images: where they lie, and TIFFs whose strips or tiles are decoded one by one."""

from __future__ import annotations

import io
import struct
import sys
from typing import Any

import numpy as np
import pytest
from image_files import encode
from PIL import Image
from tiled_tiffs import DEFLATE, JPEG, NONE, tiled
from variants import wide

from dbinfer_udf.errors import ImageError, UsageError
from dbinfer_udf.image import tiff
from dbinfer_udf.image.decode import decode
from dbinfer_udf.image.file import DEFAULT_LIMITS
from dbinfer_udf.session import images

SETTINGS = {"venv": sys.prefix}


def scene(width: int = 300, height: int = 170) -> Image.Image:
    """Return a picture in which no two places look alike."""
    y, x = np.mgrid[:height, :width]
    pixels = np.stack([x * 255 // width, y * 255 // height, (x * 7 + y * 13) % 256], 2)
    return Image.fromarray(pixels.astype(np.uint8))


def tiles(data: bytes, size: int = 64, overlap: int = 16, **settings: object) -> list[tuple[int, int, Any]]:
    given = {**SETTINGS, **{key: str(value) for key, value in settings.items()}}
    return [(x, y, decode(tile)) for x, y, tile in images.tiles(given, data, (size, overlap))]


def put_together(found: list[tuple[int, int, Any]], width: int, height: int) -> np.ndarray:
    whole = np.zeros((height, width, 3), np.uint8)
    for x, y, tile in found:
        whole[y : y + tile.shape[0], x : x + tile.shape[1]] = tile
    return whole


def test_tiles_cover_an_image_and_overlap(subtests: pytest.Subtests) -> None:
    for kind in ("PNG", "JPEG", "TIFF", "AVIF"):
        with subtests.test(kind=kind):
            data = encode(scene(), kind)
            found = tiles(data)
            assert [(x, y) for x, y, _ in found] == [
                (x, y) for y in (0, 48, 96, 106) for x in (0, 48, 96, 144, 192, 236)
            ]
            assert {tile.shape for _, _, tile in found} == {(64, 64, 3)}
            assert (put_together(found, 300, 170) == decode(data)).all()


def test_an_image_smaller_than_a_tile_is_one_as_it_is_shown() -> None:
    ((x, y, tile),) = tiles(encode(scene(20, 30), "JPEG", 6))
    assert (x, y, tile.shape) == (0, 0, (20, 30, 3))
    assert [(x, y) for x, y, _ in tiles(encode(scene(20, 100), "PNG"))] == [(0, 0), (0, 36)]


def test_a_process_of_its_own_cuts_where_isolation_is_a_promise() -> None:
    data = encode(scene(), "TIFF", compression="tiff_lzw")
    for got, want in zip(tiles(data, isolation="always"), tiles(data), strict=True):
        assert got[:2] == want[:2]
        assert (got[2] == want[2]).all()


STRIPS: list[dict[str, Any]] = [
    *({"compression": name} for name in ("tiff_lzw", "tiff_adobe_deflate", "packbits", "zstd", "jpeg")),
    {"compression": "tiff_lzw", "tiffinfo": {317: 2}},
    {"compression": "tiff_adobe_deflate", "big_tiff": True},
    {"compression": "jpeg", "big_tiff": True, "quality": 90},
]
MODES = ["RGB", *wide("L", "P", "1", "I;16", "CMYK", "RGBA", "YCbCr", "LAB")]


def striped(mode: str, options: dict[str, Any]) -> bytes | None:
    """Return a TIFF of several strips, and None where Pillow writes none of this kind."""
    gray = np.asarray(scene(700, 200).convert("L"))
    image = Image.fromarray(gray.astype(np.uint16) * 257) if mode == "I;16" else scene(700, 200).convert(mode)
    target = io.BytesIO()
    try:
        image.save(target, "TIFF", strip_size=8192, **options)
    except (OSError, RuntimeError):
        return None
    return target.getvalue()


@pytest.mark.parametrize("mode", MODES)
def test_strips_give_what_the_whole_file_gives(mode: str, subtests: pytest.Subtests) -> None:
    compared = 0
    for options in STRIPS:
        data = striped(mode, options)
        if data is None:
            continue
        with subtests.test(options=options):
            try:
                whole = decode(data)
            except ImageError:
                with pytest.raises(ImageError):
                    tiles(data, 100, 20)
                continue
            found = tiff.blocks(data, DEFAULT_LIMITS)
            assert found is not None
            assert len(found.starts) > 1
            assert (put_together(tiles(data, 100, 20), 700, 200) == whole).all()
            compared += 1
    assert compared > 1


def test_tiles_of_a_tiff_give_what_the_whole_file_gives(subtests: pytest.Subtests) -> None:
    pixels = np.pad(np.asarray(scene(700, 200)), ((0, 128), (0, 128), (0, 0)), "edge")
    for kind in (NONE, DEFLATE, JPEG):
        for end, big in (("<", False), (">", True)):
            with subtests.test(kind=kind, end=end, big=big):
                data = tiled(
                    (700, 200), lambda x, y: pixels[y : y + 128, x : x + 128], kind=kind, end=end, big=big
                )
                found = tiff.blocks(data, DEFAULT_LIMITS)
                assert found is not None
                assert (len(found.starts), found.tiled) == (12, True)
                whole = decode(data)
                # the blue is noise, of which JPEG keeps little
                assert np.abs(whole.astype(int) - pixels[:200, :700])[..., :2].mean() < 3
                assert (put_together(tiles(data, 100, 20), 700, 200) == whole).all()


def test_a_large_tiff_is_decoded_within_the_limits_of_a_part() -> None:
    """The whole has twelve times the pixels that are allowed."""
    plain = np.full((128, 128, 3), 77, np.uint8)
    data = tiled((3000, 2000), lambda x, y: plain)
    with pytest.raises(ImageError, match="pixels, but the limit is 500000"):
        decode(data, limits=DEFAULT_LIMITS._replace(max_pixels=500_000))
    found = tiles(data, 500, 50, max_image_pixels=500_000)
    assert (put_together(found, 3000, 2000) == 77).all()


def test_a_block_is_decoded_once(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    file = tiff.Blocks.file
    monkeypatch.setattr(tiff.Blocks, "file", lambda self, number: asked.append(number) or file(self, number))
    tiles(tiled((700, 400), lambda x, y: np.zeros((128, 128, 3), np.uint8)), 100, 40)
    assert sorted(asked) == list(range(24))


def test_what_is_refused(subtests: pytest.Subtests) -> None:
    plain = np.zeros((128, 128, 3), np.uint8)
    tiff_file = tiled((1000, 1000), lambda x, y: plain + np.uint8(x // 128), kind=NONE)
    for name, data, settings, said, state in (
        ("no image", b"no image at all, but text", {}, "not an image", "22P03"),
        ("empty", b"", {}, "the image is empty", "22P03"),
        ("cut off", encode(scene(), "PNG")[:-30], {}, "the PNG image is cut off", "22P03"),
        ("within the header", tiff_file[:-30], {}, "the image is cut off", "22P03"),
        ("bytes", tiff_file, {"max_image_bytes": 1000}, "bytes, but the limit is 1000", "54000"),
        ("blocks", tiff_file, {"max_image_segments": 60}, "more than 60 strips or tiles", "54000"),
        ("tiles", encode(scene(), "PNG"), {"max_image_segments": 20}, "more than 20 tiles", "54000"),
        ("a block", tiff_file, {"max_image_pixels": 10_000}, "16384 pixels, but the limit is 10000", "54000"),
        ("a row", tiff_file, {"max_image_memory": 200_000}, "bytes of memory for a row of tiles", "54000"),
    ):  # fmt: skip
        with subtests.test(name):
            with pytest.raises(ImageError, match=said) as caught:
                tiles(data, **settings)
            assert caught.value.sqlstate == state
    for size, overlap in ((0, 0), (None, 0), (20_000, 0), (64, 33), (64, -1), (64, None)):
        with subtests.test(size=size, overlap=overlap), pytest.raises(UsageError, match="must be from"):
            list(images.tiles(SETTINGS, tiff_file, (size, overlap)))


def test_a_block_that_lies_beyond_the_end_is_an_error_at_its_turn() -> None:
    plain = np.zeros((128, 128, 3), np.uint8)
    data = bytearray(tiled((300, 300), lambda x, y: plain, kind=NONE))
    found = tiff.blocks(bytes(data), DEFAULT_LIMITS)
    assert found is not None
    place = data.rindex(struct.pack("<9I", *found.sizes))
    struct.pack_into("<I", data, place + 4 * 8, 1 << 30)
    rows = images.tiles(SETTINGS, bytes(data), (100, 0))
    assert next(rows)[:2] == (0, 0)
    with pytest.raises(ImageError, match="the TIFF image is cut off"):
        list(rows)
