"""IRs that ovc makes of Keras Applications networks deploy as they are and predict equal to OpenVINO alone."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import ask, make_images, rows
from float32 import tolerance
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy
from dbinfer.models.ir import import_openvino

pytestmark = pytest.mark.wide

NETWORKS = ("MobileNetV2", "ResNet50")
if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[convert]", allow_module_level=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("applications")
    script = Path(__file__).with_name("keras_ir.py")
    done = subprocess.run(
        [sys.executable, script, folder, *NETWORKS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize("name", NETWORKS)
def test_equal_to_openvino_alone(db: Connection, dsn: str, folder: Path, name: str) -> None:
    random = np.random.default_rng(0)
    images = [random.integers(0, 256, (224, 224, 3), dtype=np.uint8) for _ in range(3)]
    make_images(db, "noise", [tiny_models.file(image) for image in images])
    done = deploy(folder / f"{name}.xml", dsn=dsn)
    assert (done.manifest.task, done.manifest.precision) == ("classification", "f32")
    compiled = (
        import_openvino()
        .Core()
        .compile_model(folder / f"{name}.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    )
    for place, found in rows(db, f"SELECT id, dbinfer.predict(img, '{name}') FROM public.noise"):
        expected = compiled(images[place][None].astype(np.float32))[0].ravel()
        assert len(found) == 1000
        # 53 layers in both networks, with sums of up to 3 * 3 * 512 terms
        assert np.abs(np.array(found) - expected).max() <= tolerance(expected, 53, 3 * 3 * 512)
        assert ask(
            db, f"SELECT (dbinfer.classify(img, '{name}')).class FROM public.noise WHERE id = {place}"
        ) == (expected.argmax())
