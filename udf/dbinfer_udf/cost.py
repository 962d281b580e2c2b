"""Refuses an image whose decoding would cost too much, before the decoder runs: nothing can interrupt that."""

from __future__ import annotations

from typing import Sequence

from .errors import ImageError
from .image_limits import FREE_MEMORY, Limits, too_large, too_much_memory
from .imagefile import Header
from .lzw import check_tables


def check_cost(data: bytes, header: Header, limits: Limits, result: int) -> None:
    """Raise where the file was cut off, or decoding it costs more than the limits allow.

    Args:
        result: bytes of the decoded picture.
    """
    # taken apart at once, which is quicker than by name: every row comes here
    format_, width, height, _, _, _, complete, scans, buffers, seconds, _ = header
    _, max_pixels, max_memory, max_expansion, max_scans, _, _, max_seconds = limits
    if width * height > max_pixels:
        raise too_large(width * height, max_pixels, "pixels", "max_image_pixels")
    if not complete:
        raise _cut_off(header)
    if scans > max_scans:
        raise too_large(scans, max_scans, "scans", "max_image_scans")
    # at the end OpenCV copies the picture, when its buffers are gone
    memory = result + (buffers if buffers > result else result)
    # the two limits of Limits.memory_for
    if memory > max_memory or memory > FREE_MEMORY + len(data) * max_expansion:
        raise too_much_memory(memory, len(data), limits)
    if seconds > max_seconds:
        raise too_large(f"about {seconds:.0f}", max_seconds, "seconds to decode", "max_image_seconds")
    # last, because only this looks at the data
    if format_ == "GIF":
        check_tables(data, header, limits)


def check_shape(shape: Sequence[int], header: Header, part: int) -> None:
    """Raise where the decoder found another size than the header says: then what was checked is not what it is.

    Args:
        part: 1, 2, 4 or 8: how much smaller the picture was decoded. TIFFs the decoder turns itself.
    """
    width, height = header.size if header.format == "TIFF" else (header.width, header.height)
    if (shape[0], shape[1]) != (-(-height // part), -(-width // part)):
        raise ImageError(
            f"the {header.format} image is damaged: its header says {header.width} x {header.height} pixels, but the "
            f"decoder found {shape[1]} x {shape[0]}"
        )


def _cut_off(header: Header) -> ImageError:
    return ImageError(
        f"the {header.format} image is cut off: its data ends after {header.bytes} bytes",
        detail=f"The header says {header.width} x {header.height} pixels.",
        hint="Load the whole file again.",
    )


def no_memory(header: Header) -> ImageError:
    """Return the error of a decoder that got no memory."""
    return ImageError(
        f"the {header.format} image cannot be decoded: the server is out of memory",
        detail=f"The image has {header.width} x {header.height} pixels and {header.bytes} bytes.",
        hint="Lower dbinfer's setting max_image_memory to what a session may take.",
        sqlstate="53200",
    )


def limit_of_the_session(header: Header) -> ImageError:
    """Return the error of an image above the limit that OpenCV took when the session began."""
    return ImageError(
        f"the image is too large for this session: {header.width * header.height} pixels",
        hint="The session began with a lower max_image_pixels; connect again.",
        sqlstate="54000",
    )
