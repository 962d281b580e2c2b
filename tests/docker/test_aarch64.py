"""Another processor, emulated: install, deploy, digits and U-Net in SQL, and the engine with what guards there are."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from containers import ROOT, run
from machines import commands, machine

from dbinfer.models.ir import import_openvino

BASE = "arm64v8/debian:bookworm-slim"
HINT = "; docs/explanation/platforms.md says how one is made"
# Neoverse N1 has no SVE, whose emulation makes numbers that no processor makes (platforms.md)
EMULATED = ("-e", "QEMU_CPU=neoverse-n1")
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
def carried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel, two networks that were trained here for a moment, and images of their sizes."""
    folder = tmp_path_factory.mktemp("carried")
    subprocess.run(["bash", "scripts/dist", folder], cwd=ROOT, check=True, capture_output=True)
    program, random = Path(sys.executable).with_name("dbinfer"), np.random.default_rng(0)
    for name, words in (("digits", "--data digits"), ("unet", "--data strokes --set size=64 --set depth=2")):
        out = folder / "runs" / name
        train = ["train", name, *words.split(), "--epochs", "1", "--out", str(out)]
        for command in (train, ["convert", str(out / f"{name}.keras"), "-o", str(folder / f"{name}.xml")]):
            subprocess.run([program, *command], check=True, capture_output=True)
        (folder / name).mkdir()
        for number, grey in enumerate(random.integers(0, 256, (IMAGES, SIZES[name], SIZES[name]), np.uint8)):
            (folder / name / f"{number}.png").write_bytes(tiny_models.file(grey))
            np.save(folder / name / f"{number}.npy", grey)
    return folder


def expected(folder: Path, name: str) -> np.ndarray:
    """Return what the network answers on this processor."""
    openvino = import_openvino()
    core, side = openvino.Core(), SIZES[name]
    graph = core.read_model(folder / f"{name}.xml")
    graph.reshape([1, side, side, 1])
    compiled = core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    images = [np.load(folder / name / f"{number}.npy") for number in range(IMAGES)]
    return np.stack([compiled(image[None, :, :, None])[0].ravel() for image in images])


def test_it_installs_deploys_and_scores_on_aarch64(compose: None, carried: Path) -> None:
    with machine(BASE, carried, *EMULATED, hint=HINT) as host:
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
            np.testing.assert_allclose(answers, expected(carried, name), atol=1e-4)
        said = host.su("postgres", "dbinfer doctor --dsn dbname=shop")
        assert "All is well." in said
        # qemu knows neither; the processor's own kernel has both
        assert "without landlock and seccomp" in said
        assert "2 models" in said or "1 models" in said
