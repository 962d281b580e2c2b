"""The input tensor of a network, computed with numpy as deploy compiles it into the graph."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbinfer_udf.manifest import Manifest

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Element types as OpenVINO and as numpy name them
ELEMENTS = {"f32": "float32", "f16": "float16", "u8": "uint8"}


def normalized(pixels: NDArray[Any], manifest: Manifest) -> NDArray[Any]:
    """Return x = (pixel - mean) / scale of an image (height, width, channels), computed in float32."""
    import numpy as np

    x: NDArray[Any] = pixels.astype(np.float32)
    if manifest.mean:
        x = x - np.asarray(manifest.mean, np.float32)
    if manifest.scale:
        x = x / np.asarray(manifest.scale, np.float32)
    return x


def input_tensor(pixels: NDArray[Any], manifest: Manifest, layout: str, element: str = "f32") -> NDArray[Any]:
    """Return the tensor of one image, normalized.

    Args:
        pixels: uint8 (height, width, channels) in the size and colour order of the manifest.
        layout: NHWC or NCHW.
        element: type of the network's input, a key of ELEMENTS.

    Returns:
        (1, height, width, channels) or (1, channels, height, width), contiguous.
    """
    import numpy as np

    x = normalized(pixels, manifest)
    x = x[None] if layout == "NHWC" else x.transpose(2, 0, 1)[None]
    return np.ascontiguousarray(x, dtype=ELEMENTS[element])
