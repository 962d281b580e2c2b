"""Images to score: photographs of any size cut from scikit-learn's two samples, and its real handwritten digits."""

from __future__ import annotations

from typing import Any

import cv2
import numpy as np

from dbinfer.errors import DataError

QUALITY = 90
NOISE = 2.0  # grey levels, as a camera's sensor has them


def size_of(images: str) -> tuple[int, int]:
    """Return (width, height) of `500x375`."""
    width, height = images.split("x")
    return int(width), int(height)


def make_images(images: str, count: int, seed: int = 0) -> list[bytes]:
    """Return `count` different image files: digits as PNG for 28x28, else photographs as JPEG.

    Args:
        images: width x height in pixels, e.g. `500x375`.
    """
    return make_digits(count)[0] if images == "28x28" else make_photographs(size_of(images), count, seed)


def make_photographs(size: tuple[int, int], count: int, seed: int = 0) -> list[bytes]:
    """Return JPEG files of that (width, height): parts of the samples, scaled, lighter or darker, with noise."""
    samples = _samples()
    random = np.random.default_rng(seed)
    return [_encode(".jpg", _part(samples[i % 2], size, random)) for i in range(count)]


def make_digits(count: int) -> tuple[list[bytes], list[int]]:
    """Return the first `count` held-out digits as PNG files of 28x28, and their labels."""
    x, y = digits_split()[1]
    chosen = [i % len(x) for i in range(count)]
    return [_encode(".png", x[i]) for i in chosen], [int(y[i]) for i in chosen]


def digits_split() -> tuple[tuple[Any, Any], tuple[Any, Any]]:
    """Return ((train images, labels), (held-out images, labels)); images uint8 (n, 28, 28), white on black."""
    data = _sklearn("datasets").load_digits()
    scaled = [cv2.resize(x, (28, 28), interpolation=cv2.INTER_CUBIC) for x in data.images.astype(np.float32)]
    images = np.clip(np.stack(scaled) * (255 / 16), 0, 255).astype(np.uint8)
    held = np.arange(len(images)) % 4 == 0
    return (images[~held], data.target[~held]), (images[held], data.target[held])


def _samples() -> list[Any]:
    return [image[:, :, ::-1] for image in _sklearn("datasets").load_sample_images().images]


def _sklearn(module: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"sklearn.{module}")
    except ImportError as err:
        raise DataError(
            "the images to measure with come from scikit-learn, which is not installed.",
            "pip install 'dbinfer[bench]'",
        ) from err


def _part(image: Any, size: tuple[int, int], random: Any) -> Any:
    height, width = image.shape[:2]
    share = random.uniform(0.6, 0.95)
    part_width, part_height = int(width * share), int(height * share)
    x, y = random.integers(0, width - part_width), random.integers(0, height - part_height)
    part = image[y : y + part_height, x : x + part_width]
    scaled = cv2.resize(np.ascontiguousarray(part), size, interpolation=cv2.INTER_CUBIC).astype(np.float32)
    scaled *= random.uniform(0.7, 1.2)
    scaled += random.normal(0, NOISE, scaled.shape).astype(np.float32)
    return np.clip(scaled, 0, 255).astype(np.uint8)


def _encode(kind: str, image: Any) -> bytes:
    options = [cv2.IMWRITE_JPEG_QUALITY, QUALITY] if kind == ".jpg" else []
    return bytes(cv2.imencode(kind, image, options)[1].tobytes())
