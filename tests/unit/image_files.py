"""Image files of every kind for the tests of the runtime, made with Pillow (another codec than the runtime's)."""

from __future__ import annotations

import functools
import io

import numpy as np
import pillow_heif
from PIL import Image

pillow_heif.register_heif_opener()

WIDTH, HEIGHT = 96, 64
TRANSPOSES = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}


def picture() -> Image.Image:
    """Return 96 x 64 pixels in four areas of different colour: every turn and every swap of channels shows."""
    pixels = np.empty((HEIGHT, WIDTH, 3), np.uint8)
    pixels[:32, :48] = (200, 30, 30)
    pixels[:32, 48:] = (30, 200, 30)
    pixels[32:, :48] = (30, 30, 200)
    pixels[32:, 48:] = (120, 120, 120)
    return Image.fromarray(pixels)


def encode(image: Image.Image, kind: str, orientation: int = 0, **options: object) -> bytes:
    """Return the file; `kind` is our name of the format, which is Pillow's but for HEIC."""
    if orientation:
        exif = Image.Exif()
        exif[0x112] = orientation
        options["exif"] = exif.tobytes()
    target = io.BytesIO()
    image.save(target, "HEIF" if kind == "HEIC" else kind, **options)
    return target.getvalue()


def turned(image: Image.Image, orientation: int) -> np.ndarray:
    """Return the pixels as shown by an EXIF orientation."""
    if orientation in TRANSPOSES:
        image = image.transpose(TRANSPOSES[orientation])
    return np.asarray(image)


@functools.lru_cache(maxsize=1)
def photographs() -> tuple[np.ndarray, ...]:
    """Return scikit-learn's two photographs, uint8 (427, 640, 3) RGB."""
    from dbinfer.images import builtin

    return tuple(photo[:, :, ::-1] for photo in builtin.photographs())
