"""What dbinfer.draw does in a backend: there where images may be decoded, else in a process of its own."""

from __future__ import annotations

from . import interrupts, isolation
from .engine.errors import CancelledError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Dict, Optional, Tuple


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
    from .image_limits import image_limits
    from .libraries import load

    limits = image_limits(settings)
    load(settings.get("venv", ""), limits.max_pixels)
    from .draw import drawn as draw_here

    return draw_here(img, *k, limits, look)


def look() -> None:
    """Raise where the server wants this statement to end."""
    if interrupts.cancelled():
        raise CancelledError("the statement was cancelled while it drew")
