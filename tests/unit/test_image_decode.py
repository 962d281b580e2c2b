"""Decoding: pixels of all formats, the right way up, within the limits, never a picture that was cut off."""

from __future__ import annotations

import contextlib
import itertools
import struct
from typing import Any

import cv2
import numpy as np
import pytest
from image_files import HEIGHT, WIDTH, encode, photographs, picture, turned
from PIL import Image

from dbinfer_udf.errors import ImageError
from dbinfer_udf.image import decode as module
from dbinfer_udf.image.decode import DEFAULT_LIMITS, Decoder, Limits, Target, decode, reduction, target_of
from dbinfer_udf.image.file import Header
from dbinfer_udf.manifest import Manifest

READS_GIF = tuple(map(int, cv2.__version__.split(".")[:2])) >= (4, 12)
needs_animations = pytest.mark.skipif(not READS_GIF, reason="OpenCV reads GIF from 4.12 on")
KINDS = [
    ("JPEG", {"quality": 95, "subsampling": 0}),
    ("JPEG", {"quality": 95, "subsampling": 0, "progressive": True}),
    ("PNG", {}),
    ("BMP", {}),
    ("TIFF", {}),
    ("TIFF", {"compression": "tiff_lzw"}),
    ("WebP", {"lossless": True}),
    ("WebP", {"quality": 95}),
    *([("GIF", {})] if READS_GIF else []),
    ("AVIF", {"quality": 95}),
    ("HEIC", {"quality": 95}),
]


def difference(left: np.ndarray, right: np.ndarray) -> float:
    """Return the mean difference in grey levels."""
    assert left.shape == right.shape
    return float(np.abs(left.astype(int) - right).mean())


def test_pixels_and_order_of_channels(subtests: pytest.Subtests) -> None:
    for color, (kind, options) in itertools.product(["RGB", "BGR", "GRAY"], KINDS):
        with subtests.test(color=color, kind=kind, options=options):
            image = picture()
            got = decode(encode(image, kind, **options), color)
            want = np.asarray(image.convert("L" if color == "GRAY" else "RGB"))
            assert got.dtype == np.uint8
            assert difference(got, want[..., ::-1] if color == "BGR" else want) < 2


def test_orientation_is_applied(subtests: pytest.Subtests) -> None:
    for orientation, kind, color in itertools.product(
        range(1, 9), ["JPEG", "PNG", "TIFF", "WebP", "AVIF", "HEIC"], ["RGB", "GRAY"]
    ):
        with subtests.test(orientation=orientation, kind=kind, color=color):
            image = picture()
            got, header = Decoder(color)(encode(image, kind, orientation))
            want = turned(image.convert("L") if color == "GRAY" else image, orientation)
            assert difference(got, want) < 4
            assert header.size == got.shape[1::-1]


def test_orientation_is_applied_to_reduced_jpegs(subtests: pytest.Subtests) -> None:
    for orientation, color in itertools.product(range(1, 9), ["RGB", "GRAY"]):
        with subtests.test(orientation=orientation, color=color):
            image = picture()
            across, down = (32, 48) if orientation >= 5 else (48, 32)
            target = Target(across * 2 // 3, down * 2 // 3)
            got, header = Decoder(color, target=target)(encode(image, "JPEG", orientation))
            small = (image.convert("L") if color == "GRAY" else image).resize((48, 32), Image.Resampling.BOX)
            assert difference(got, turned(small, orientation)) < 6
            assert header.size == (across * 2, down * 2)


def test_orientation_of_16_bit_tiffs(subtests: pytest.Subtests) -> None:
    for orientation in range(1, 9):
        with subtests.test(orientation=orientation):
            levels = np.asarray(picture().convert("L"))
            deep = Image.fromarray(levels.astype(np.uint16) * 257)
            got, header = Decoder("GRAY")(encode(deep, "TIFF", orientation))
            assert header.size == got.shape[1::-1]
            assert difference(got, turned(Image.fromarray(levels), orientation)) < 2


def test_modes_become_eight_bit(subtests: pytest.Subtests) -> None:
    for color, kind, mode in itertools.product(
        ["RGB", "GRAY"], ["PNG", "TIFF", "BMP"], ["L", "LA", "RGBA", "P", "1", "I;16"]
    ):
        if kind == "BMP" and mode in ("LA", "I;16"):
            continue  # it has no such mode
        with subtests.test(color=color, kind=kind, mode=mode):
            levels = picture().convert("L")
            image = (
                Image.fromarray(np.asarray(levels).astype(np.uint16) * 257)
                if mode == "I;16"
                else picture().convert(mode)
            )
            shown = levels if mode in ("I;16", "L", "LA") else image
            want = np.asarray(shown.convert("L" if color == "GRAY" else "RGB"))
            got = decode(encode(image, kind), color)
            assert got.dtype == np.uint8
            assert difference(got, want) < 2


def test_sixteen_bit_colour() -> None:
    want = np.asarray(picture())
    for kind in (".png", ".tiff"):
        deep = cv2.imencode(kind, want[..., ::-1].astype(np.uint16) * 257)[1].tobytes()
        assert difference(decode(deep, "RGB"), want) == 0


def test_alpha_is_dropped_not_blended() -> None:
    image = picture().convert("RGBA")
    image.putalpha(1)
    assert difference(decode(encode(image, "PNG"), "RGB"), np.asarray(picture())) == 0


def test_cmyk_jpeg() -> None:
    got = decode(encode(picture().convert("CMYK"), "JPEG", quality=95), "RGB")
    assert difference(got, np.asarray(picture())) < 4


@needs_animations
@pytest.mark.parametrize("kind", ["GIF", "WebP", "PNG"])
def test_first_frame_of_an_animation(kind) -> None:
    later = [Image.new("RGB", (WIDTH, HEIGHT), (9 * n, 0, 0)) for n in range(4)]
    data = encode(
        picture(), kind, save_all=True, append_images=later, **({"lossless": True} if kind == "WebP" else {})
    )
    assert difference(decode(data), np.asarray(picture())) < 2


def test_one_pixel(subtests: pytest.Subtests) -> None:
    for color, (kind, options) in itertools.product(["RGB", "GRAY"], KINDS):
        with subtests.test(color=color, kind=kind, options=options):
            got = decode(
                encode(Image.new("RGB", (1, 1), (250, 250, 250)), kind, **options),
                color,
                target=Target(224, 224),
            )
            assert got.shape[:2] == (1, 1)
            assert np.abs(got.astype(int) - 250).max() < 5


def test_cut_off_anywhere_is_refused(subtests: pytest.Subtests) -> None:
    for kind, options in KINDS:
        with subtests.test(kind=kind, options=options):
            data = encode(Image.fromarray(photographs()[0][:64, :96]), kind, **options)
            assert decode(data).shape == (64, 96, 3)
            for length in [*range(0, len(data) - 1, max(1, len(data) // 97)), len(data) - 1]:
                with pytest.raises(ImageError):
                    decode(data[:length])


def test_cut_off_is_called_so(subtests: pytest.Subtests) -> None:
    for kind in ["JPEG", "PNG", "BMP", "WebP", "GIF"]:
        with subtests.test(kind=kind):
            data = encode(Image.fromarray(photographs()[0]), kind)
            cut = data[: len(data) * 2 // 3]
            with pytest.raises(
                ImageError, match=f"the {kind} image is cut off: its data ends after {len(cut)} bytes"
            ) as caught:
                decode(cut)
            assert "640 x 427" in caught.value.detail
            assert caught.value.hint


def test_bytes_after_the_end_do_not_matter(subtests: pytest.Subtests) -> None:
    for (kind, options), tail in itertools.product(KINDS, [b"\0", b"trailing bytes \xff", b"\0" * 5000]):
        with subtests.test(kind=kind, options=options, tail=tail):
            data = encode(picture(), kind, **options)
            assert np.array_equal(decode(data + tail), decode(data))


def test_a_jpeg_whose_thumbnail_ends_is_still_cut_off() -> None:
    plain = encode(picture(), "JPEG")
    thumbnail = encode(picture().resize((16, 12)), "JPEG")
    data = plain[:2] + b"\xff\xe2" + struct.pack(">H", len(thumbnail) + 2) + thumbnail + plain[2:-300]
    with pytest.raises(ImageError, match="cut off"):
        decode(data)


def test_damaged_data_is_an_image_error() -> None:
    png = encode(picture(), "PNG")
    at = png.index(b"IDAT") + 6
    bad = png[:at] + bytes(40) + png[at + 40 :]
    with pytest.raises(ImageError, match="the PNG image is damaged") as caught:
        decode(bad)
    assert "96 x 64" in caught.value.detail
    assert caught.value.sqlstate == "22P03"


def test_any_damage_gives_a_picture_or_an_image_error(subtests: pytest.Subtests) -> None:
    for kind, options in KINDS:
        with subtests.test(kind=kind, options=options):
            data = encode(picture(), kind, **options)
            rng = np.random.default_rng(11)
            for _ in range(60):
                bad = bytearray(data)
                for at in rng.integers(2, len(data), 5):
                    bad[at] = rng.integers(256)
                with contextlib.suppress(ImageError):
                    assert decode(bytes(bad), limits=Limits(max_pixels=1_000_000)).dtype == np.uint8


def test_limits_are_checked_before_decoding() -> None:
    data = encode(picture(), "PNG")
    with pytest.raises(ImageError, match=rf"too large: {len(data)} bytes, but the limit is 100") as caught:
        decode(data, limits=Limits(max_bytes=100))
    assert caught.value.sqlstate == "54000"
    with pytest.raises(ImageError, match="too large: 6144 pixels, but the limit is 6143"):
        decode(data, limits=Limits(max_pixels=6143))
    assert decode(data, limits=Limits(len(data), 6144)).shape == (64, 96, 3)


def test_a_bomb_is_refused_by_its_header() -> None:
    bomb = bytearray(encode(picture(), "PNG"))
    struct.pack_into(">II", bomb, 16, 100_000, 100_000)
    with pytest.raises(ImageError, match="10000000000 pixels"):
        decode(bytes(bomb))
    assert DEFAULT_LIMITS.max_pixels < 10_000_000_000


def header(width: int, height: int, orientation: int = 1) -> Header:
    return Header("JPEG", width, height, 3, 1, orientation)


def test_reduction_covers_the_target_with_a_margin(subtests: pytest.Subtests) -> None:
    for facts, target, want in [
        (header(4000, 3000), Target(224, 224), 8),
        (header(2688, 2688), Target(224, 224), 8),
        (header(2687, 2688), Target(224, 224), 4),
        (header(500, 375), Target(224, 224), 1),
        (header(672, 672), Target(224, 224), 2),
        (header(4000, 672), Target(224, 224), 2),
        (header(4000, 672), Target(224, 224, both=False), 8),
        (header(100, 50), Target(224, 224, both=False), 1),
        (header(1200, 400), Target(400, 100), 2),
        (header(400, 1200, 6), Target(400, 100), 2),
        (header(400, 1200), Target(400, 100), 1),
    ]:
        with subtests.test(facts=facts, target=target, want=want):
            assert reduction(facts, target) == want


def test_target_of_a_manifest(subtests: pytest.Subtests) -> None:
    for changes, want in [
        ({}, Target(64, 32, True)),
        ({"resize": "crop"}, Target(64, 32, True)),
        ({"resize": "fit_to_window"}, Target(64, 32, False)),
        ({"resize": "fit_to_window_letterbox"}, Target(64, 32, False)),
        ({"decode": "exact"}, None),
        ({"interpolation": "nearest"}, None),
        ({"interpolation": "cubic"}, None),
        ({"interpolation": "area"}, Target(64, 32, True)),
    ]:
        with subtests.test(changes=changes, want=want):
            assert target_of(Manifest("classification", 32, 64, **changes)) == want


def test_only_jpegs_are_decoded_reduced() -> None:
    image = Image.fromarray(photographs()[0])
    decoder = Decoder("RGB", target=Target(53, 33))
    assert decoder(encode(image, "JPEG"))[0].shape == (53, 80, 3)
    assert decoder(encode(image, "JPEG"))[1].size == (640, 427)
    assert decoder(encode(image, "PNG"))[0].shape == (427, 640, 3)


def test_reduced_decoding_differs_little(subtests: pytest.Subtests) -> None:
    for size, number in itertools.product(
        [(40, 26), (53, 35), (80, 53), (100, 66), (160, 106), (213, 142), (224, 149)], [0, 1]
    ):
        with subtests.test(size=size, number=number):
            data = encode(Image.fromarray(photographs()[number]), "JPEG", quality=90)
            fast = cv2.resize(decode(data, target=Target(*size)), size, interpolation=cv2.INTER_AREA)
            full = cv2.resize(decode(data), size, interpolation=cv2.INTER_AREA)
            assert difference(fast, full) < (3.6, 2.6)[number]


def test_reduced_decoding_does_not_shift_the_picture(subtests: pytest.Subtests) -> None:
    for size, orientation in itertools.product(
        [(640, 427), (639, 421), (633, 418), (641, 425)], [1, 3, 6, 8]
    ):
        with subtests.test(size=size, orientation=orientation):
            image = Image.fromarray(photographs()[1]).resize(size)
            data = encode(image, "JPEG", orientation, quality=90)
            target = (26, 39) if orientation >= 5 else (39, 26)
            fast = cv2.resize(decode(data, target=Target(*target)), target, interpolation=cv2.INTER_AREA)
            full = cv2.resize(decode(data), target, interpolation=cv2.INTER_AREA)
            assert difference(fast, full) < 2.2


def test_models_share_the_last_pictures(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[int] = []
    decode = module._decode

    def counted(data: bytes, *more: Any) -> np.ndarray:
        ran.append(len(data))
        return decode(data, *more)

    monkeypatch.setattr(module, "_decode", counted)
    module._kept.clear()
    random = np.random.default_rng(0)
    large, part, another = (
        cv2.imencode(".bmp", random.integers(0, 256, (60, side, 3), np.uint8))[1].tobytes()
        for side in (90, 50, 51)
    )
    one, other, gray = (Decoder(color, keeps=True) for color in ("BGR", "BGR", "GRAY"))
    assert one(large)[0] is other(bytes(bytearray(large)))[0]
    # parts between, each decoded by itself
    for each in (part, large, another, large):
        assert np.array_equal(one(each)[0], Decoder("BGR")(each)[0])
    assert ran.count(len(large)) == 1 + 2  # 2: those that keep nothing
    assert gray(large)[0].ndim == 2
    tiny = cv2.imencode(".png", np.zeros((9, 9, 3), np.uint8))[1].tobytes()
    assert one(tiny)[0] is not other(tiny)[0]


def test_what_is_kept_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "KEPT_BYTES", 100_000)
    module._kept.clear()
    sizes = (30, 60, 300)
    for side in sizes:
        Decoder("BGR", keeps=True)(cv2.imencode(".bmp", np.zeros((60, side, 3), np.uint8))[1].tobytes())
    assert [image.shape[1] for _, _, image in module._kept] == [60]
    module._kept.clear()
