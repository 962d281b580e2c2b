"""What needs no model: the facts of an image from its header, drawing on an image, and embeddings that are alike."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from .draw_task import draw
from .header import read_header
from .image_limits import image_limits


def image_info(settings: Dict[str, str], img: bytes, k: Optional[int]) -> str:
    """Return a literal of dbinfer.image_facts from the header alone; `settings` stand in for the model."""
    header = read_header(img, image_limits(settings))
    return "(%s,%d,%d,%d,%d)" % (header.format, *header.size, header.channels, header.bytes)


def alike(settings: Dict[str, str], img: bytes, k: Tuple[bytes, int, float]) -> Iterator[Any]:
    """Yield which embeddings of two blocks are nearly alike; see likeness.alike."""
    from .libraries import load

    load(settings.get("venv", ""), image_limits(settings).max_pixels)
    from .likeness import alike as alike_here

    return alike_here(img, *k)


IMAGE_TASKS: Dict[str, Callable[[Any, bytes, Any], Any]] = {
    "image_info": image_info,
    "draw": draw,
    "alike": alike,
}
