"""What needs no model: the facts of an image from its header, drawing on an image, and embeddings that are alike."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from ..engine import isolation
from ..errors import CancelledError
from ..host import interrupts
from ..host.image_limits import image_limits
from ..image.header import read_header

TYPE_CHECKING = False  # of typing itself: see fastjson


def draw(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Return the image with boxes or a mask on it; `settings` stand in for the model.

    Args:
        k: JSON of the detections, and the mask; either may be None.
    """
    # the promise of `always`: no image is decoded in a backend. An engine serves one model, and this is none's.
    if settings.get("isolation") == isolation.ALWAYS:
        from .draw_apart import drawn_apart

        return drawn_apart(settings, img, k)
    return drawn(settings, img, k)


def drawn(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Draw in this process."""
    from ..host.libraries import load

    limits = image_limits(settings)
    load(settings.get("venv", ""), limits.max_pixels)
    from ..image.draw import drawn as draw_here

    return draw_here(img, *k, limits, look_for_cancel)


def look_for_cancel() -> None:
    """Raise where the server wants this statement to end."""
    if interrupts.cancelled():
        raise CancelledError("the statement was cancelled while it drew")


def image_info(settings: Dict[str, str], img: bytes, k: Optional[int]) -> str:
    """Return a literal of dbinfer.image_facts from the header alone; `settings` stand in for the model."""
    header = read_header(img, image_limits(settings))
    return "(%s,%d,%d,%d,%d)" % (header.format, *header.size, header.channels, header.bytes)


def alike(settings: Dict[str, str], img: bytes, k: Tuple[bytes, int, float]) -> Iterator[Any]:
    """Yield which embeddings of two blocks are nearly alike; see likeness.alike."""
    from ..host.libraries import load

    load(settings.get("venv", ""), image_limits(settings).max_pixels)
    from ..result.likeness import alike as alike_here

    return alike_here(img, *k)


IMAGE_TASKS: Dict[str, Callable[[Any, bytes, Any], Any]] = {
    "image_info": image_info,
    "draw": draw,
    "alike": alike,
}
