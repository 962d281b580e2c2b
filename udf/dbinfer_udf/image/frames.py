"""The pictures of an animation, the pages of a TIFF, and the frames of a film, one after the other. Runs apart only:
OpenCV's readers of animations and FFmpeg's of films may crash, see apart.
"""

from __future__ import annotations

import io
from typing import Any, Callable, Iterator, Optional, Tuple

import cv2
import numpy as np

from ..errors import ImageError
from . import heif, tiff
from .decode import Decoder, check_cost
from .file import FRAME_TIME, UNTIMED, Limits, check_count, too_large
from .header import read_header, sniff

_CHANNELS = 4  # of a picture of an animation
_COPIES = 12  # pictures that a decoder of films keeps, most to refer to

Timed = Iterator[Tuple[int, np.ndarray]]  # microseconds since the first, and pixels BGR as shown


def frames(limits: Limits, data: bytes, every: Optional[int]) -> Iterator[bytes]:
    """Yield each picture: 8 bytes of its time in microseconds since the first (UNTIMED: it has none), and a BMP file.

    BMP, because most pictures are decoded next: one of 1920 x 1080 takes 2 ms to and fro, as PNG 76 ms.

    Args:
        every: microseconds: of each span of this length only the first picture counts.

    Raises:
        ImageError: neither an image nor a film that can be read, damaged, or above the limits.
    """
    if len(data) > limits.max_bytes:
        raise too_large(len(data), limits.max_bytes, "bytes", "max_image_bytes")
    kind = sniff(data)
    found: Callable[[bytes, Limits, Wanted], Timed] = _film
    if kind is not None or not data:
        header = read_header(data, limits)
        several = header.animated or kind in ("GIF", "WebP")
        found = _pages if kind == "TIFF" else _animation if several and kind != heif.HEIC else _picture
    try:
        for number, (at, picture) in enumerate(found(data, limits, Wanted(every)), 1):
            check_count(number, limits.max_frames, "frames", "max_image_frames")
            yield FRAME_TIME.pack(at) + cv2.imencode(".bmp", picture)[1].tobytes()
    except cv2.error as err:
        raise ImageError(
            f"the {kind or 'film'} is damaged or of an unsupported kind: OpenCV cannot decode it",
            detail=f"{len(data)} bytes, OpenCV {cv2.__version__}: {str(err).strip().splitlines()[0]}",
        ) from err


class Wanted:
    """Decides which times count: the first of each span.

    Args:
        every: the span in microseconds; None: all.
    """

    def __init__(self, every: Optional[int]) -> None:
        self._every, self._next = every, 0

    def __call__(self, at: int) -> bool:
        """Return whether the picture of this time counts; times come in their order."""
        if self._every is None:
            return True
        if at < self._next:
            return False
        self._next = (at // self._every + 1) * self._every
        return True


def _picture(data: bytes, limits: Limits, _wanted: Wanted) -> Timed:
    yield UNTIMED, Decoder("BGR", limits)(data)[0]


def _pages(data: bytes, limits: Limits, _wanted: Wanted) -> Timed:
    decode = Decoder("BGR", limits)
    for page in tiff.pages(data, limits):
        yield UNTIMED, decode(page)[0]


def _animation(data: bytes, limits: Limits, wanted: Wanted) -> Timed:
    """Yield the pictures of an animation; a file of one picture as that."""
    header = read_header(data, limits)
    check_cost(data, header, limits, _CHANNELS * header.width * header.height)
    # so many are decoded at once, each time from the first one on
    most = max(1, limits.memory_for(len(data)) // (2 * _CHANNELS * header.width * header.height))
    done, at = 0, 0
    while True:
        animation = cv2.Animation()
        good, animation = cv2.imdecodeanimation(np.frombuffer(data, np.uint8), done, most)
        pictures = animation.frames if good else ()
        if not done and len(pictures) < 2:
            yield from _picture(data, limits, wanted)
            return
        for picture, milliseconds in zip(pictures, animation.durations):
            if picture.shape[:2] != (header.height, header.width):
                raise ImageError(f"the {header.format} image is damaged: its pictures differ in size")
            if wanted(at):
                yield at, picture[:, :, :3]
            at += 1000 * int(milliseconds)
        done += len(pictures)
        check_count(done, limits.max_frames, "frames", "max_image_frames")
        if len(pictures) < most:
            return


def _film(data: bytes, limits: Limits, wanted: Wanted) -> Timed:
    """Yield the frames of a film, turned as it says; one that was cut off gives those that are there."""
    # a variable, because OpenCV does not keep the stream alive
    film: Any = io.BytesIO(data)
    capture = cv2.VideoCapture(film, cv2.CAP_FFMPEG, [cv2.CAP_PROP_N_THREADS, 1])
    try:
        # FFmpeg opens nearly anything; what has no frame was no film
        if not capture.isOpened() or not capture.grab():
            raise ImageError(
                f"neither an image nor a film that OpenCV can read: the first bytes are {bytes(data[:8])!r}",
                hint="Films are read by OpenCV's FFmpeg: MP4, MOV, MKV, WebM, AVI and others.",
            )
        _check_film(capture, limits)
        grabbed = True
        while grabbed:
            at = max(0, round(capture.get(cv2.CAP_PROP_POS_MSEC) * 1000))
            if wanted(at):
                good, picture = capture.retrieve()
                if not good:
                    raise ImageError(f"the film is damaged: its frame at {at / 1e6:.3f} s cannot be decoded")
                yield at, picture
            grabbed = capture.grab()
    finally:
        capture.release()


def _check_film(capture: Any, limits: Limits) -> None:
    width, height = (int(capture.get(one)) for one in (cv2.CAP_PROP_FRAME_WIDTH, cv2.CAP_PROP_FRAME_HEIGHT))
    pixels = width * height
    if pixels > limits.max_pixels:
        raise too_large(pixels, limits.max_pixels, "pixels", "max_image_pixels")
    memory = pixels * 3 * _COPIES
    if memory > limits.max_memory:
        raise too_large(memory, limits.max_memory, "bytes of memory to decode a film", "max_image_memory")
