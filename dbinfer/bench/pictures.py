"""The image files of a plan's points: photographs of any size and format, and digits."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import cv2
import numpy as np

from dbinfer import samples
from dbinfer.cost.facts import Picture

COUNT, COUNT_LARGE, LARGE = 16, 4, 3_000_000
SUFFIXES = {"JPEG": ".jpg", "PNG": ".png", "WebP": ".webp", "BMP": ".bmp", "TIFF": ".tiff"}


@dataclass(frozen=True)
class Kind:
    """Image files of one kind; those of 28 x 28 are digits."""

    width: int
    height: int
    format: str = "JPEG"
    quality: int = samples.JPEG_QUALITY

    @property
    def title(self) -> str:
        """Name for people: `500x375 JPEG`, with the quality where it is not the usual one."""
        quality = "" if self.quality == samples.JPEG_QUALITY else f" q{self.quality}"
        return f"{self.width}x{self.height} {self.format}{quality}"

    def files(self) -> tuple[bytes, ...]:
        """Return a few different files."""
        if self.width == samples.DIGIT_SIZE:
            digits = (data for data, _label in samples.digit_files("heldout"))
            return tuple(itertools.islice(digits, 256))
        count = COUNT_LARGE if self.width * self.height > LARGE else COUNT
        files = samples.photograph_files((self.width, self.height), count)
        if (self.format, self.quality) == ("JPEG", samples.JPEG_QUALITY):
            return tuple(files)
        return tuple(self._again(data) for data in files)

    def _again(self, data: bytes) -> bytes:
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        return samples.encode(SUFFIXES[self.format], np.asarray(image, np.uint8), self.quality)

    def picture(self, files: tuple[bytes, ...]) -> Picture:
        """Return what a cost depends on."""
        return Picture(self.format, self.width, self.height, sum(map(len, files)) / len(files))
