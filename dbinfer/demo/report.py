"""What the demo is asked, and what it measured."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbinfer.report import Report


@dataclass(frozen=True)
class DemoOptions:
    """Where the demo keeps its things.

    Attributes:
        out: folder for models, images and pictures.
        picture: a PNG to write in addition, 1280 pixels wide: the statements and what they return.
    """

    out: Path = Path("out/demo")
    picture: Path | None = None


@dataclass(frozen=True)
class DemoReport(Report):
    """What the demo measured in SQL.

    Attributes:
        accuracy: of the digits, on images that training never saw.
        images_per_second: of the digits.
        dice: of the masks of strokes, likewise.
        masks: picture of photographs, true masks and the masks that SQL returned.
        pages: what dbinfer report wrote on the digits and on the strokes.
    """

    accuracy: float
    images_per_second: float
    dice: float
    masks: Path
    pages: tuple[Path, Path]
