"""What the readers of all formats return: the facts of an image file, and what decoding it will cost."""

from __future__ import annotations

from typing import NamedTuple, Tuple


class Header(NamedTuple):
    """What an image file says of itself without any pixel decoded.

    Attributes:
        format: one of FORMATS.
        width, height: in pixels, as stored.
        channels: as in the file: 1 gray, 2 gray with alpha, 3 colour or palette, 4 colour with alpha or CMYK.
        bytes: size of the file.
        orientation: EXIF's 1 to 8; from 5 on, width and height swap when the image is shown.
        complete: false where the file was cut off, which decoders often show as a picture that is half gray.
        scans: passes over the pixels; more than one in a progressive JPEG.
        buffers: bytes that the decoder takes beside the pixels which it returns.
        seconds: that decoding takes on one core, by an estimate that is rather too high (see docs/security.md).
        animated: whether it is a PNG of several pictures.
    """

    format: str
    width: int
    height: int
    channels: int
    bytes: int
    orientation: int = 1
    complete: bool = True
    scans: int = 1
    buffers: int = 0
    seconds: float = 0.0
    animated: bool = False

    @property
    def size(self) -> Tuple[int, int]:
        """Width and height of the image as shown, the orientation applied."""
        return (self.width, self.height) if self.orientation < 5 else (self.height, self.width)
