"""The images of a cell: photographs of the asked size, or the held-out digits."""

from __future__ import annotations

import itertools

from dbinfer import samples

DIGITS = f"{samples.DIGIT_SIZE}x{samples.DIGIT_SIZE}"


def size_of(images: str) -> tuple[int, int]:
    """Return (width, height) of `500x375`."""
    width, height = images.split("x")
    return int(width), int(height)


def make_images(images: str, count: int, seed: int = 0) -> list[bytes]:
    """Return `count` image files: held-out digits, in turns, as PNG for 28x28, else photographs as JPEG.

    Args:
        images: width x height in pixels, e.g. `500x375`.
    """
    if images != DIGITS:
        return samples.photograph_files(size_of(images), count, seed)
    files = [data for data, _label in samples.digit_files("heldout")]
    return list(itertools.islice(itertools.cycle(files), count))
