"""One picture: photographs, true masks and the masks that SQL returned, side by side."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np


def dice(found: np.ndarray, truth: np.ndarray) -> float:
    """Return 2|A and B| / (|A| + |B|) of two masks (uint8, set above 127); 1 where both are empty."""
    a, b = found > 127, truth > 127
    total = int(a.sum() + b.sum())
    return 2 * int((a & b).sum()) / total if total else 1.0


def dice_of_files(found: bytes, truth: bytes) -> float:
    """Return the dice of two masks in image files."""
    return dice(decode(found), decode(truth))


def decode(data: bytes, flags: int = cv2.IMREAD_GRAYSCALE) -> np.ndarray:
    """Return the pixels of an image file."""
    return np.asarray(cv2.imdecode(np.frombuffer(data, np.uint8), flags))


def draw(path: Path, rows: list[tuple[bytes, bytes, bytes]], title: str) -> None:
    """Write a PNG with one line for each (image, truth, mask)."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(len(rows), 3, figsize=(6.6, 2.2 * len(rows) + 0.6), squeeze=False)
    for line, (image, truth, mask) in zip(axes, rows, strict=True):
        pictures = (decode(image, cv2.IMREAD_COLOR)[:, :, ::-1], decode(truth), decode(mask))
        for axis, picture in zip(line, pictures, strict=True):
            axis.imshow(picture, cmap="gray", vmin=0, vmax=255)
            axis.set_axis_off()
    for axis, name in zip(axes[0], ("image", "truth", "dbinfer.segment(img)"), strict=True):
        axis.set_title(name, fontsize=10)
    figure.suptitle(title, fontsize=11)
    figure.tight_layout()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    # pyplot keeps every figure until it is told otherwise
    pyplot.close(figure)
