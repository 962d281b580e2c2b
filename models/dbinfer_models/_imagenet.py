"""The preprocessing that ImageNet networks of the zoo share."""

from __future__ import annotations

from dbinfer_udf.manifest import Manifest

# Mean and deviation of ImageNet per channel (R, G, B), in grey levels: 255 times the usual 0.485, 0.229, ...
MEAN = (123.675, 116.28, 103.53)
SCALE = (58.395, 57.12, 57.375)


def imagenet_manifest(name: str, size: int) -> Manifest:
    """Return the manifest of a classifier whose images are scaled by the short side, then cut."""
    return Manifest(
        task="classification",
        name=name,
        height=size,
        width=size,
        resize="crop",
        mean=MEAN,
        scale=SCALE,
        precision="auto",
    )
