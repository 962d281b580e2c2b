"""What is measured for a plan: steps, statements that coefficients are fitted to, and statements held out."""

from __future__ import annotations

from dbinfer.bench.pictures import Kind
from dbinfer.bench.point import Case

DIGIT, PHOTO = Kind(28, 28, "PNG"), Kind(500, 375)
PNG, WEBP, BMP, TIFF = "PNG", "WebP", "BMP", "TIFF"
STEPS: tuple[tuple[str, Kind], ...] = (
    ("digits", DIGIT),
    ("digits", PHOTO),
    ("mobilenet_v2", Kind(224, 224)),
    ("mobilenet_v2", PHOTO),
    ("mobilenet_v2", Kind(500, 375, quality=60)),
    ("mobilenet_v2", Kind(600, 450)),
    ("mobilenet_v2", Kind(2000, 1500)),
    ("mobilenet_v2", Kind(2000, 1500, quality=60)),
    ("mobilenet_v2", Kind(4000, 3000)),
    *(
        ("mobilenet_v2", Kind(*size, name))
        for name in (PNG, WEBP, BMP, TIFF)
        for size in ((224, 224), (1000, 750))
    ),
    ("unet", PHOTO),
    ("unet", Kind(2000, 1500)),
)
FITTED = (
    Case("digits", DIGIT, held=False),
    Case("digits", PHOTO, held=False),
    Case("mobilenet_v2", Kind(224, 224), held=False),
    Case("mobilenet_v2", PHOTO, held=False),
    Case("mobilenet_v2", Kind(4000, 3000), held=False),
)
HELD = (
    Case("resnet50", PHOTO),
    Case("resnet50", PHOTO, processes=2),
    Case("resnet50", Kind(1000, 750), processes=2),
    Case("mobilenet_v2", Kind(1000, 750)),
    Case("mobilenet_v2", PHOTO, processes=2),
    Case("mobilenet_v2", Kind(3000, 2000), processes=2),
    Case("mobilenet_v2", Kind(640, 480, quality=75)),
    Case("mobilenet_v2", Kind(800, 600, PNG)),
    Case("mobilenet_v2", PHOTO, "int8", 2),
    Case("resnet50", PHOTO, "int8", 2),
    Case("digits", DIGIT, processes=2),
    Case("unet", Kind(1000, 750), processes=2),
    Case("detector", Kind(640, 480), processes=2),
)
SEGMENTS = (
    Case("resnet50", PHOTO),
    Case("mobilenet_v2", PHOTO),
    Case("mobilenet_v2", Kind(1600, 1200)),
    Case("digits", DIGIT),
    Case("mobilenet_v2", PHOTO, skew=1.0),
    Case("mobilenet_v2", PHOTO, skew=0.6),
)
# What a fresh process works before its first row, where it scores itself, and with the engine
STARTS = {"backend": Case("digits", DIGIT), "engine": Case("mobilenet_v2", PHOTO)}
