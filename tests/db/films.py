"""Small animations and films, each picture of which is known."""

from __future__ import annotations

import io
import tempfile
from functools import cache
from pathlib import Path

import cv2
import numpy as np
from PIL import Image

SIDE = (160, 120)


def clip(count: int) -> list[Image.Image]:
    """Return pictures that grow lighter, with a red square that moves: no two are alike."""
    pictures = []
    for number in range(count):
        pixels = np.full((SIDE[1], SIDE[0], 3), number * 5 % 200, np.uint8)
        pixels[10:40, 3 * number % 120 :][:, :20] = (255, 0, 0)
        pictures.append(Image.fromarray(pixels))
    return pictures


def animation(kind: str, count: int, **options: object) -> tuple[list[Image.Image], bytes]:
    """Return pictures, and the file that shows them one after the other; `kind` as Pillow names it."""
    pictures, target = clip(count), io.BytesIO()
    pictures[0].save(target, kind, save_all=True, append_images=pictures[1:], **options)
    return pictures, target.getvalue()


@cache
def film(ending: str, codec: str, count: int, rate: int) -> bytes:
    """Return the film of a clip, `rate` pictures a second."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / f"film.{ending}"
        writer = cv2.VideoWriter(str(path), cv2.VideoWriter_fourcc(*codec), rate, SIDE)
        for picture in clip(count):
            writer.write(np.asarray(picture)[:, :, ::-1])
        writer.release()
        return path.read_bytes()
