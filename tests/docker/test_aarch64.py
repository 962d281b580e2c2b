"""Another processor, emulated: install, deploy, digits and U-Net in SQL, and the engine with what guards there are."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import cv2
import numpy as np
import pytest
import tiny_models
from containers import need, run
from machines import commands, machine

from dbinfer.models.ir import import_openvino

BASE = "arm64v8/debian:bookworm-slim"
HINT = "; docs/explanation/platforms.md says how one is made"
SIZES = {"digits": 28, "unet": 64}
IMAGES = 8
BEGIN = """
export DBINFER_DSN=dbname=shop
createdb shop
dbinfer install --venv /opt/dbinfer/venv
dbinfer deploy digits.xml --precision f32 --isolation never
dbinfer deploy unet.xml --precision f32 --isolation always
dbinfer load digits --table digits
dbinfer load unet --table unet
"""
PREDICT = "psql -d shop -Atc \"SELECT json_agg(dbinfer.predict(img, '{0}') ORDER BY path) FROM {0}\""


@pytest.fixture(scope="module")
def carried(compose: None, release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, two networks that were trained here for a moment, and images of their sizes."""
    need(BASE, HINT)
    folder = tmp_path_factory.mktemp("carried")
    shutil.copytree(release, folder, dirs_exist_ok=True)
    program, random = Path(sys.executable).with_name("dbinfer"), np.random.default_rng(0)
    for name, words in (("digits", "--data digits"), ("unet", "--data strokes --set size=64 --set depth=2")):
        out = folder / "runs" / name
        train = ["train", name, *words.split(), "--epochs", "1", "--out", str(out)]
        for command in (train, ["convert", str(out / f"{name}.keras"), "-o", str(folder / f"{name}.xml")]):
            subprocess.run([program, *command], check=True, capture_output=True)
        (folder / name).mkdir()
        for number, grey in enumerate(random.integers(0, 256, (IMAGES, SIZES[name], SIZES[name]), np.uint8)):
            (folder / name / f"{number}.png").write_bytes(tiny_models.file(grey))
    return folder


def expected(folder: Path, name: str) -> np.ndarray:
    """Return what the network answers on this processor to the grey images, which both manifests scale by 255."""
    openvino = import_openvino()
    core, side = openvino.Core(), SIZES[name]
    graph = core.read_model(folder / f"{name}.xml")
    channels = graph.input(0).partial_shape[3].get_length()
    graph.reshape([1, side, side, channels])
    compiled = core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    files = [str(folder / name / f"{number}.png") for number in range(IMAGES)]
    images = [cv2.imread(file, cv2.IMREAD_GRAYSCALE) / np.float32(255) for file in files]
    return np.stack([compiled(np.stack([image] * channels, -1)[None])[0].ravel() for image in images])


def test_it_installs_deploys_and_scores_on_aarch64(carried: Path) -> None:
    with machine(BASE, carried) as host:
        if (found := run(["docker", "exec", host.name, "uname", "-m"]).stdout.strip()) != "aarch64":
            pytest.skip(
                f"programs of aarch64 do not run here ({found or 'no answer'}): install qemu-user-static"
            )
        page = commands("install.md", "A machine of its own").split("\ndbinfer up")[0]
        host.shell(f"{page}\ndbinfer host-venv /opt/dbinfer/venv\npg_ctlcluster 15 main start")
        host.su("postgres", BEGIN)
        for name in SIZES:
            answers = np.array(json.loads(host.su("postgres", PREDICT.format(name))))
            # sums of some thousand products in another order
            np.testing.assert_allclose(answers, expected(carried, name), atol=1e-5)
        said = host.su("postgres", "dbinfer doctor --dsn dbname=shop")
        assert "All is well." in said
        # qemu knows neither; the processor's own kernel has both
        assert "without landlock and seccomp" in said
