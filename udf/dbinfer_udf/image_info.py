"""What needs no model and no library: the facts of an image from its header."""

from __future__ import annotations

from typing import Any, Callable, Dict, Optional

from .draw_task import draw
from .header import read_header
from .image_limits import image_limits


def image_info(settings: Dict[str, str], img: bytes, k: Optional[int]) -> str:
    """Return a literal of dbinfer.image_facts from the header alone; `settings` stand in for the model."""
    header = read_header(img, image_limits(settings))
    return "(%s,%d,%d,%d,%d)" % (header.format, *header.size, header.channels, header.bytes)


IMAGE_TASKS: Dict[str, Callable[[Any, bytes, Any], Any]] = {"image_info": image_info, "draw": draw}
