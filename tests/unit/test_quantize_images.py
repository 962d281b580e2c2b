"""Calibration sees exactly what a deployed model sees: the same pixels after mean and scale, in the same layout."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
from float32 import tolerance

from dbinfer.base.errors import DataError
from dbinfer.convert.compare import Tensors
from dbinfer.models.describe import describe
from dbinfer.models.ir import embed_manifest, import_openvino, read_model
from dbinfer.models.prepare import prepare
from dbinfer_udf.image.decode import Decoder, target_of
from dbinfer_udf.image.resize import Resizer
from dbinfer_udf.manifest import Manifest


def jpeg(seed: int = 0) -> bytes:
    random = np.random.default_rng(seed).integers(0, 256, (40, 60, 3), dtype=np.uint8)
    return bytes(cv2.imencode(".jpg", random)[1].tobytes())


@pytest.mark.parametrize("order", ["NHWC", "NCHW"])
def test_tensors_equal_the_prepared_graphs_own_preprocessing(tmp_path: Path, order: str) -> None:
    ov = import_openvino()
    from openvino import opset13 as ops

    manifest = Manifest(task="tensor", height=16, width=24, color="BGR", mean=(10, 20, 30), scale=(2, 3, 4))
    shape = [1, 16, 24, 3] if order == "NHWC" else [1, 3, 16, 24]
    image = ops.parameter(shape, np.float32, name="image")
    graph = ov.Model([ops.result(ops.multiply(image, np.float32(1)))], [image], "same")
    embed_manifest(graph, manifest)
    ov.save_model(graph, tmp_path / "m.xml", compress_to_fp16=False)
    model = read_model(tmp_path / "m.xml")
    files = prepare(model, describe(model, layout=order))
    (tmp_path / "p.xml").write_bytes(files.xml)
    (tmp_path / "p.bin").write_bytes(files.bin)

    pixels = np.empty((16, 24, 3), np.uint8)
    Resizer(manifest).resize(Decoder("BGR", target=target_of(manifest))(jpeg())[0], pixels)
    compiled = ov.Core().compile_model(tmp_path / "p.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    expected = compiled(pixels[None])[0]
    np.testing.assert_allclose(Tensors(manifest, order)(jpeg()), expected, atol=tolerance(255.0, 2))


def test_a_row_that_is_no_image_is_named() -> None:
    make = Tensors(Manifest(task="tensor", height=4, width=4), "NHWC")
    with pytest.raises(DataError, match="cannot be used"):
        make(b"not an image")
