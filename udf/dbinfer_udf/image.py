"""Decodes image files into pixels: limits first, nothing cut off, no larger than needed, the right way up."""

from __future__ import annotations

from typing import Any, Callable, Dict, NamedTuple, Optional, Tuple

import cv2
import numpy as np

from .complete import COMPLETE
from .errors import ImageError
from .header import HINT, Header, read_header
from .manifest import Manifest

_IGNORE_ORIENTATION: int = cv2.IMREAD_IGNORE_ORIENTATION
_RGB: int = getattr(cv2, "IMREAD_COLOR_RGB", 0)
_REDUCED = {1: 0, 2: 16, 4: 32, 8: 64}
_TURNS: Dict[int, Callable[[Any], Any]] = {
    2: lambda image: cv2.flip(image, 1),
    3: lambda image: cv2.rotate(image, cv2.ROTATE_180),
    4: lambda image: cv2.flip(image, 0),
    5: cv2.transpose,
    6: lambda image: cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE),
    7: lambda image: cv2.rotate(cv2.transpose(image), cv2.ROTATE_180),
    8: lambda image: cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE),
}


def _silence() -> None:
    """Keep OpenCV's and libtiff's own messages out of the server's log; the caller gets an ImageError instead."""
    logging = getattr(cv2.utils, "logging", None)
    if logging is not None:
        logging.setLogLevel(logging.LOG_LEVEL_SILENT)


_silence()


class Limits(NamedTuple):
    """Largest image that is decoded: bytes of the file, and pixels (width x height) by its header."""

    max_bytes: int = 256 << 20
    max_pixels: int = 100_000_000


class Target(NamedTuple):
    """Size in pixels that an image will be shrunk to.

    Attributes:
        both: both sides must reach the target (standard, crop); else one of them is enough (fit_to_window).
    """

    width: int
    height: int
    both: bool = True


def target_of(manifest: Manifest) -> Optional[Target]:
    """Return what a decoder may reduce JPEGs to; None where the manifest wants every pixel decoded."""
    if manifest.decode == "exact" or manifest.interpolation not in ("linear", "area"):
        return None
    return Target(manifest.width, manifest.height, manifest.resize in ("standard", "crop"))


class Decoder:
    """Decodes the images of one model.

    Args:
        color: RGB, BGR or GRAY.
        target: JPEGs may be decoded at 1/2, 1/4 or 1/8 as long as this size is still covered; None never.
    """

    def __init__(self, color: str, limits: Limits = Limits(), target: Optional[Target] = None) -> None:
        base = {"GRAY": cv2.IMREAD_GRAYSCALE, "RGB": _RGB or cv2.IMREAD_COLOR}.get(color, cv2.IMREAD_COLOR)
        self._flags = {n: base | reduced | _IGNORE_ORIENTATION for n, reduced in _REDUCED.items()}
        self._plain = self._flags[1]
        self._swap = color == "RGB" and not _RGB
        self._limits = limits
        self._target = target

    def __call__(self, data: bytes) -> Tuple[np.ndarray, Header]:
        """Return the pixels as shown (EXIF orientation applied), and the header.

        Returns:
            uint8 (height, width, 3), or (height, width) for GRAY. The first frame of an animation; alpha is dropped,
            16 bits become 8. `header.size` is the full size, also where the pixels were decoded reduced.

        Raises:
            ImageError: not an image, cut off, damaged, or above the limits (then with SQLSTATE 54000).
        """
        if len(data) > self._limits.max_bytes:
            raise _too_large("%d bytes" % len(data), "%d bytes" % self._limits.max_bytes)
        header = read_header(data)
        if header.width * header.height > self._limits.max_pixels:
            size = "%d x %d = %d pixels" % (header.width, header.height, header.width * header.height)
            raise _too_large(size, "%d pixels" % self._limits.max_pixels)
        if not COMPLETE[header.format](data):
            raise ImageError(
                "the %s image is cut off: its data ends after %d bytes" % (header.format, len(data)),
                detail="The header says %d x %d pixels." % (header.width, header.height),
                hint="Load the whole file again.",
            )
        flags = self._plain
        if self._target is not None and header.format == "JPEG":
            flags = self._flags[reduction(header, self._target)]
        image = _decode(data, header, flags)
        if self._swap:
            image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB, image)
        if header.orientation > 1 and header.format != "TIFF":  # TIFF: OpenCV does it whatever the flag says
            image = _TURNS[header.orientation](image)
        return image, header


def decode(
    data: bytes, color: str = "RGB", limits: Limits = Limits(), target: Optional[Target] = None
) -> np.ndarray:
    """Return the pixels of one image; see Decoder."""
    return Decoder(color, limits, target)(data)[0]


def reduction(header: Header, target: Target) -> int:
    """Return 8, 4, 2 or 1: how much smaller an image can be decoded and still cover the target."""
    width, height = header.size
    across, down = width / target.width, height / target.height
    ratio = min(across, down) if target.both else max(across, down)
    return 1 if ratio < 2 else 2 if ratio < 4 else 4 if ratio < 8 else 8


def _decode(data: bytes, header: Header, flags: int) -> np.ndarray:
    reason = ""
    try:
        image: Optional[np.ndarray] = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if image is not None:
            return image
    except cv2.error as err:
        reason = ": %s" % str(err).strip().splitlines()[0]
    raise ImageError(
        "the %s image is damaged or of an unsupported kind: OpenCV cannot decode it" % header.format,
        detail="%d x %d pixels, %d bytes, OpenCV %s%s"
        % (header.width, header.height, header.bytes, cv2.__version__, reason),
        hint="OpenCV reads GIF from version 4.12 on." if header.format == "GIF" else HINT,
    )


def _too_large(size: str, limit: str) -> ImageError:
    return ImageError(
        "the image is too large: %s, but the limit is %s" % (size, limit),
        hint="Raise the limit in dbinfer's settings, or store a smaller image.",
        sqlstate="54000",
    )
