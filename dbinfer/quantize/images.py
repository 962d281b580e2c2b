"""Images for calibration, through the model's own preprocessing."""

from __future__ import annotations

from typing import Any

from dbinfer.agree.images import Pixels
from dbinfer.ir.tensor import input_tensor
from dbinfer_udf.manifest import Manifest


class Tensors:
    """Makes the tensor that the model's graph takes from an image file, exactly as a deployed model sees it.

    Args:
        layout: NHWC or NCHW.
    """

    def __init__(self, manifest: Manifest, layout: str) -> None:
        self.manifest, self.layout = manifest, layout
        self.pixels = Pixels(manifest)

    def __call__(self, image: bytes) -> Any:
        """Return float32 of one image with the batch in front.

        Raises:
            DataError: it is no image.
        """
        return input_tensor(self.pixels(image), self.manifest, self.layout)
