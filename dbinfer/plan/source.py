"""What a forecast needs, and what it assumes of images that nobody has shown."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbinfer.cost import Coefficients, Network, Picture
from dbinfer.plan.options import PlanOptions

SIZE, DIGIT = (500, 375), (28, 28)
# bytes a pixel of photographs: a camera's JPEG, and the samples of the other formats
DENSITY = {"JPEG": 0.27, "PNG": 1.6, "WebP": 0.9, "BMP": 3.0, "TIFF": 1.6}


@dataclass(frozen=True)
class Source:
    """What a forecast needs.

    Attributes:
        title: of the model; function: that scores it; pictures: some of the images.
        images: how many; skew: of the fullest segment; notes: what was assumed.
    """

    title: str
    function: str
    coefficients: Coefficients
    network: Network
    pictures: tuple[Picture, ...]
    images: float
    cores: int
    segments: int
    skew: float = 1.0
    notes: tuple[str, ...] = field(default=())


def assumed_picture(options: PlanOptions, network: Network) -> tuple[Picture, tuple[str, ...]]:
    """Return the picture that options describe, and what they leave open."""
    notes: tuple[str, ...] = ()
    width, height = options.size or (DIGIT if network.channels == 1 else SIZE)
    if options.size is None:
        notes += (f"images of {width} x {height} pixels (--size)",)
    kind = options.format or "JPEG"
    size = options.kilobytes * 1e3 if options.kilobytes else width * height * DENSITY[kind]
    if options.kilobytes is None:
        notes += (f"{kind} files of {size / 1e3:.3g} kB (--format, --kilobytes)",)
    return Picture(kind, width, height, size), notes
