"""The pictures of animations, the pages of TIFFs and the frames of films, each found in a process apart."""

from __future__ import annotations

import os
import site
import sys
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from films import SIDE, animation, clip, film
from image_files import HEIGHT, WIDTH, encode, picture
from PIL import Image

from dbinfer_udf.engine import worker
from dbinfer_udf.errors import ImageError, UsageError
from dbinfer_udf.host import own_python
from dbinfer_udf.image import apart as image_apart
from dbinfer_udf.image import frames as image_frames
from dbinfer_udf.image import heif
from dbinfer_udf.image.apart import apart, apart_once
from dbinfer_udf.image.decode import Decoder, decode
from dbinfer_udf.image.file import Limits
from dbinfer_udf.session import images

SETTINGS = {"venv": sys.prefix}


def frames(data: bytes, every: float | None = None, **settings: object) -> list[tuple[int, Any, bytes]]:
    return list(images.frames({**SETTINGS, **{k: str(v) for k, v in settings.items()}}, data, every))


def times(found: list[tuple[int, Any, bytes]]) -> list[float | None]:
    assert [number for number, _, _ in found] == list(range(1, len(found) + 1))
    return [None if at is None else at / 1e6 for _, at, _ in found]


def pixels(found: list[tuple[int, Any, bytes]]) -> list[np.ndarray]:
    return [decode(img) for _, _, img in found]


def test_every_picture_of_an_animation_with_its_time(subtests: pytest.Subtests) -> None:
    for kind, options in (("GIF", {}), ("WebP", {"lossless": True}), ("PNG", {}), ("AVIF", {"quality": 95})):
        with subtests.test(kind=kind):
            made, data = animation(kind, 5, duration=250, **options)
            found = frames(data)
            assert times(found) == [0, 0.25, 0.5, 0.75, 1]
            for got, want in zip(pixels(found), made, strict=True):
                assert np.abs(got.astype(int) - np.asarray(want)).mean() < (2 if kind == "AVIF" else 0.001)
            # the first is what all other functions see
            assert (pixels(found)[0] == decode(data)).all()
            assert times(frames(data, 0.5)) == [0, 0.5, 1]


def test_an_animation_longer_than_memory_comes_in_parts() -> None:
    made, data = animation("GIF", 40)
    # room for some at once
    limits = Limits(max_memory=16 * 4 * SIDE[0] * SIDE[1])
    found = [decode(said[8:]) for said in image_frames.frames(limits, data, None)]
    assert all((got == np.asarray(want)).all() for got, want in zip(found, made, strict=True))


def test_every_page_of_a_tiff_whatever_its_size() -> None:
    pages = [picture(), picture().resize((20, 50)), picture().convert("L")]
    data = encode(pages[0], "TIFF", save_all=True, append_images=pages[1:])
    found = frames(data, 1)
    assert times(found) == [None, None, None]
    for got, page in zip(pixels(found), pages, strict=True):
        assert (got == np.asarray(page.convert("RGB"))).all()


def test_one_picture_is_one_frame_as_it_is_shown() -> None:
    for kind in ("JPEG", "PNG", "BMP", "AVIF", "HEIC"):
        ((number, at, img),) = frames(encode(picture(), kind, 0 if kind == "BMP" else 6))
        assert (number, at) == (1, None)
        shape = (HEIGHT, WIDTH, 3) if kind == "BMP" else (WIDTH, HEIGHT, 3)
        assert decode(img).shape == shape


def test_the_frames_of_a_film(subtests: pytest.Subtests) -> None:
    for ending, codec in (("mp4", "mp4v"), ("avi", "MJPG"), ("mkv", "mp4v"), ("webm", "VP80")):
        with subtests.test(ending=ending):
            data = film(ending, codec, 35, rate=10)
            found = frames(data)
            assert times(found) == pytest.approx([n / 10 for n in range(35)], abs=0.001)
            for got, want in zip(pixels(found), clip(35), strict=True):
                assert np.abs(got.astype(int) - np.asarray(want)).mean() < 6
            # of spans of a tenth each frame is the first of its own, whatever the times are as floating point
            assert len(frames(data, 0.1)) == 35
            assert times(frames(data, 1)) == pytest.approx([0, 1, 2, 3], abs=0.001)


def test_a_film_that_was_cut_off_gives_what_is_there() -> None:
    data = film("avi", "MJPG", 35, rate=10)
    assert 5 < len(frames(data[: len(data) // 2])) < 30


def test_what_is_refused(subtests: pytest.Subtests) -> None:
    avi = film("avi", "MJPG", 35, rate=10)
    gif = animation("GIF", 5)[1]
    for name, call, said, state in (
        (
            "text",
            lambda: frames(b"no film at all, but some words of text"),
            "neither an image nor a film",
            "22P03",
        ),
        ("empty", lambda: frames(b""), "the image is empty", "22P03"),
        (
            "the header of a PNG",
            lambda: frames(encode(picture(), "PNG")[:20]),
            "the image is cut off",
            "22P03",
        ),
        ("cut off", lambda: frames(gif[:-30]), "the GIF image is cut off", "22P03"),
        ("too many frames", lambda: frames(avi, max_image_frames=30), "more than 30 frames", "54000"),
        ("too large", lambda: frames(avi, max_image_pixels=1000), "pixels, but the limit is 1000", "54000"),
        ("memory", lambda: frames(avi, max_image_memory=100_000), "bytes of memory", "54000"),
        ("bytes", lambda: frames(avi, max_image_bytes=1000), "bytes, but the limit is 1000", "54000"),
    ):
        with subtests.test(name=name):
            with pytest.raises(ImageError, match=said) as caught:
                call()
            assert caught.value.sqlstate == state
    # fewer frames are within the limit
    assert len(frames(avi, 0.5, max_image_frames=30)) == 7
    for every in (0, -1, float("nan"), float("inf")):
        with pytest.raises(UsageError, match=r"every is .* seconds, but must be more than 0"):
            frames(gif, every)


def test_whoever_wants_no_more_ends_the_process() -> None:
    found = images.frames(SETTINGS, film("avi", "MJPG", 35, rate=10), None)
    next(found)
    processes = {path.name for path in Path("/proc").glob("[0-9]*") if _is_child(path)}
    assert processes
    found.close()
    assert not {path.name for path in Path("/proc").glob("[0-9]*") if _is_child(path)} & processes


def _is_child(path: Path) -> bool:
    try:
        fields = (path / "stat").read_text().rpartition(")")[2].split()
        return int(fields[1]) == os.getpid() and fields[0] != "Z" and "-I" in (path / "cmdline").read_text()
    except OSError:
        return False


@pytest.mark.wide
def test_avif_and_heic_apart_are_the_same_pixels(subtests: pytest.Subtests) -> None:
    """A backend has them decoded elsewhere, an engine's worker does it itself."""
    for kind in ("AVIF", "HEIC"):
        for color in ("RGB", "BGR", "GRAY"):
            with subtests.test(kind=kind, color=color):
                data = encode(picture(), kind, 6)
                apart_, header = Decoder(color, settings=SETTINGS)(data)
                here, same = Decoder(color)(data)
                assert header == same
                assert (apart_ == here).all()


def test_avif_and_heic_are_decoded_where_nothing_else_is_allowed(subtests: pytest.Subtests) -> None:
    """A worker of the engine may open no file, and start no process; a thread only for HEIC."""
    for kind in ("AVIF", "HEIC"):
        with subtests.test(kind=kind):
            data = encode(picture(), kind)
            heif.library()
            source, target = os.pipe()
            if (pid := os.fork()) == 0:
                try:
                    worker.shut_in(-1, worker.NO_THREADS if kind == "AVIF" else worker.THREADS)
                    os.write(target, decode(data).tobytes())
                finally:
                    os._exit(0)
            os.close(target)
            with os.fdopen(source, "rb") as answer:
                assert answer.read() == decode(data).tobytes()
            os.waitpid(pid, 0)


def test_a_heic_without_the_package_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    with pytest.raises(ImageError, match="pillow-heif is not installed") as caught:
        decode(encode(Image.new("RGB", (9, 9)), "HEIC"))
    assert "pip install pillow-heif" in caught.value.hint


def test_the_process_has_no_right_but_to_compute(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its filter of system calls failed without a word: it was made when the process could read no file any more."""
    source = Path(image_apart.__file__).read_text(encoding="utf-8")
    tried = """
def _tries(limits, data):
    import socket
    for act in (os.fork, lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM), lambda: open("/etc/passwd")):
        try:
            act()
            yield "allowed"
        except OSError as err:
            yield "refused"
"""
    monkeypatch.setattr(
        own_python, "program_of", lambda module, call: _program(call, source + tried, image_apart.__package__)
    )
    assert list(apart(SETTINGS, "image.apart:_tries", [b"x"])) == ["refused"] * 3


def _program(call: dict[str, Any], source: str, package: str) -> bytes:
    """Return a program that runs `child` of another source of image.apart."""
    return f"""
import sys, types
sys.path[:0] = {[str(Path(image_apart.__file__).parents[2]), *site.getsitepackages()]!r}
module = types.ModuleType({package + ".apart"!r})
module.__package__ = {package!r}
import importlib
importlib.import_module({package!r})
sys.modules[module.__name__] = module
exec({source!r}, module.__dict__)
module.child({call!r})
""".encode()


def test_a_process_that_ends_is_the_images_fault() -> None:
    """The crash of a decoder costs a row, and not all sessions."""
    with pytest.raises(ImageError, match="decoding ended without a result") as caught:
        list(apart(SETTINGS, "image.apart:_content", [b""], []))
    assert "status" in caught.value.detail
    with pytest.raises(ImageError, match="ended without a result"):
        apart_once(SETTINGS, "image.heif:kind_of", [b""])


def test_opencv_has_what_films_need() -> None:
    assert "FFMPEG" in [
        cv2.videoio_registry.getBackendName(one) for one in cv2.videoio_registry.getStreamBackends()
    ]
    assert cv2.videoio_registry.getStreamBufferedBackends()
