"""The demo's pictures: masks beside the true ones, and two statements with the rows that they returned."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dbinfer.models.agree import dice


def dice_of_files(found: bytes, truth: bytes) -> float:
    """Return the Dice coefficient of two masks in image files, set above 127."""
    return dice(decode(found) > 127, decode(truth) > 127)


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


WIDTH, HEIGHT = 1600, 1030  # hundredths of an inch
SEGMENT = "SELECT img, dbinfer.segment(img, 'strokes') FROM strokes;"
CLASSIFY = "SELECT img, (dbinfer.classify(img, 'digits')).* FROM images;"
# Of the held-out photographs: on trees, water, sky and leaves; one, two and three digits
PHOTOS = ("0019.jpg", "0073.jpg", "0058.jpg", "0076.jpg", "0030.jpg", "0009.jpg")
MARGIN, GAP, PANEL_HEIGHT = 40, 20, 80
INK, PALE, PANEL = "#1f2328", "#59636e", "#0d1117"
COLORS = {"keyword": "#ff7b72", "function": "#d2a8ff", "string": "#a5d6ff", "": "#e6edf3"}
TOKENS = re.compile(r"(?P<keyword>SELECT|FROM)|(?P<function>dbinfer\.\w+)|(?P<string>'[^']*')|.[^SFd']*")
MONO, FONT_SIZE = "DejaVu Sans Mono", 21
CHARACTER = 0.602 * FONT_SIZE / 72 * 100  # pixels of a monospaced character at 100 dots per inch
COLOURS, DOTS = 256, 80  # of the file, which must stay below 200 kB


def draw_first_look(path: Path, masks: Sequence[Sequence[Any]], digits: Sequence[Sequence[Any]]) -> None:
    """Write the picture.

    Args:
        masks: rows of sql/demo/masks.sql: path, photograph, mask.
        digits: rows of sql/demo/sample.sql: path, label, digit, score, image.
    """
    canvas = _Canvas()
    bottom = _draw_masks(canvas, masks, MARGIN)
    _draw_digits(canvas, digits, bottom + MARGIN)
    canvas.write(path)


def _draw_masks(canvas: _Canvas, rows: Sequence[Sequence[Any]], top: int) -> int:
    """Draw photographs and below them their masks; return where they end."""
    canvas.statement(SEGMENT, top)
    side, top = _side(len(PHOTOS)), top + PANEL_HEIGHT + GAP
    found = {Path(path).name: (photo, mask) for path, photo, mask in rows}
    for column, name in enumerate(PHOTOS):
        photo, mask = found[name]
        canvas.image(decode(photo, cv2.IMREAD_COLOR)[:, :, ::-1], column, top, side)
        canvas.image(decode(mask), column, top + side + GAP, side)
    return top + 2 * side + GAP


def _draw_digits(canvas: _Canvas, rows: Sequence[Sequence[Any]], top: int) -> None:
    """Draw digits, and below each the class that was found and its score."""
    canvas.statement(CLASSIFY, top)
    side, top = _side(len(rows)), top + PANEL_HEIGHT + GAP
    for column, (_path, _label, digit, score, image) in enumerate(rows):
        canvas.image(decode(image), column, top, side, cv2.INTER_NEAREST)
        canvas.caption(f"{digit}", f"{score:.3f}", column, top + side, side)


def _side(count: int) -> int:
    """Return the side of each of so many images in a row."""
    return (WIDTH - 2 * MARGIN - (count - 1) * GAP) // count


class _Canvas:
    """A picture in pixels, (0, 0) at the upper left."""

    def __init__(self) -> None:
        import matplotlib

        matplotlib.use("Agg")
        from matplotlib.figure import Figure

        self.figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=100, facecolor="white")
        self.axis = self.figure.add_axes((0, 0, 1, 1))
        self.axis.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
        self.axis.set_axis_off()

    def statement(self, text: str, top: int) -> None:
        """Draw SQL on a dark panel, its words in an editor's colours."""
        from matplotlib.patches import FancyBboxPatch

        size = (WIDTH - 2 * MARGIN, PANEL_HEIGHT)
        panel = FancyBboxPatch(
            (MARGIN, top), *size, boxstyle="round,pad=0,rounding_size=14", fc=PANEL, ec="none"
        )
        self.axis.add_patch(panel)
        for token in TOKENS.finditer(text):
            for place, character in enumerate(token.group(), token.start()):
                self._character(character, place, top, COLORS[token.lastgroup or ""])

    def _character(self, character: str, place: int, top: int, color: str) -> None:
        """Draw one character by itself: a whole word would be set by its font's rounded widths."""
        left = MARGIN + 30 + place * CHARACTER
        middle = top + PANEL_HEIGHT / 2 + 1
        self.axis.text(
            left, middle, character, color=color, family=MONO, size=FONT_SIZE, va="center_baseline"
        )

    def image(self, pixels: Any, column: int, top: int, side: int, how: int = cv2.INTER_CUBIC) -> None:
        """Draw an image in a column of images of that side."""
        scaled = cv2.resize(np.ascontiguousarray(pixels), (side, side), interpolation=how)
        left = MARGIN + column * (side + GAP)
        self.axis.imshow(
            scaled,
            extent=(left, left + side, top + side, top),
            cmap="gray",
            vmin=0,
            vmax=255,
            interpolation="antialiased",
            aspect="auto",
        )
        # imshow has set the limits to its own image
        self.axis.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))

    def caption(self, label: str, score: str, column: int, top: int, side: int) -> None:
        """Write a label and its score below an image."""
        middle = MARGIN + column * (side + GAP) + side / 2
        self.axis.text(middle, top + 44, label, color=INK, family=MONO, size=28, ha="center", va="center")
        self.axis.text(middle, top + 94, score, color=PALE, family=MONO, size=17, ha="center", va="center")

    def write(self, path: Path) -> None:
        """Write the PNG, in 256 colours."""
        import io

        from PIL import Image

        data = io.BytesIO()
        self.figure.savefig(data, dpi=DOTS)
        path.parent.mkdir(parents=True, exist_ok=True)
        Image.open(data).convert("RGB").quantize(COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
