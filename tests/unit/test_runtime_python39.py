"""The runtime on Python 3.9, which Greenplum 6 has: it is read, imported and, where the libraries are there, run.

DBINFER_TEST_PYTHON39 names an interpreter, as that of a virtual environment with OpenVINO; else one is looked for.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import engine_models
import pytest
import tiny_models

from dbinfer_udf.errors import ModelError
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.model import model as compiling
from dbinfer_udf.model.device import Setup
from dbinfer_udf.model.functions import RUNS

UDF = Path(compiling.__file__).parents[2]
IMPORT = """
import importlib, pkgutil, sys
sys.path.insert(0, sys.argv[1])
import dbinfer_udf
for found in pkgutil.walk_packages(dbinfer_udf.__path__, "dbinfer_udf."):
    try:
        importlib.import_module(found.name)
    except ModuleNotFoundError as err:
        if err.name not in ("numpy", "cv2", "openvino", "orjson"):
            raise
    print(found.name)
"""
SCORE = """
import json, sys
sys.path.insert(0, sys.argv[1])
from dbinfer_udf.engine.client import Engine, stop
call = json.load(sys.stdin)
engine = Engine(call["settings"], call["digest"], lambda: call["modules"])
img = open(call["img"], "rb").read()
try:
    # the second finds what the first has compiled
    for rows in (1, 4):
        print(engine.open(call["spec"], call["folder"], 1, rows).ask("predict", img, None))
finally:
    stop(call["settings"])
"""


@cache
def python39() -> str:
    """Return an interpreter of 3.9; nothing where there is none."""
    named = os.environ.get("DBINFER_TEST_PYTHON39"), shutil.which("python3.9")
    managed = Path.home().glob(".pyenv/versions/3.9.*/bin/python")
    for path in [*filter(None, named), *map(str, managed)]:
        asked = [path, "-c", "import sys; print('%d.%d' % sys.version_info[:2])"]
        if subprocess.run(asked, check=False, capture_output=True, text=True).stdout == "3.9\n":
            return path
    return ""


def run(program: str, told: str = "") -> str:
    command = [python39(), "-I", "-W", "error", "-B", "-c", program, str(UDF)]
    answer = subprocess.run(command, check=False, capture_output=True, text=True, input=told, timeout=120)
    assert answer.returncode == 0, answer.stderr
    return answer.stdout


needs_python39 = pytest.mark.skipif(
    not python39(), reason="there is no Python 3.9: set DBINFER_TEST_PYTHON39"
)


@needs_python39
def test_every_module_is_read_and_imported() -> None:
    names = {
        ".".join(path.relative_to(UDF).with_suffix("").parts).removesuffix(".__init__")
        for path in UDF.glob("dbinfer_udf/**/*.py")
    }
    assert set(run(IMPORT).split()) == names - {"dbinfer_udf"}


@needs_python39
def test_an_engine_answers_as_one_of_this_python(tmp_path: Path) -> None:
    libraries = "import numpy, cv2, openvino, orjson"
    if subprocess.run([python39(), "-c", libraries], check=False, capture_output=True).returncode:
        pytest.skip("Python 3.9 has no OpenVINO here: DBINFER_TEST_PYTHON39 may name one that has")
    spec, entry = engine_models.ticket(tiny_models.colour_classifier(tmp_path), tmp_path / "cache")
    (tmp_path / "img").write_bytes(tiny_models.file(tiny_models.picture(200, 30, 10)))
    (tmp_path / "engine").mkdir(mode=0o700)
    made = engine_models.engine(tmp_path / "engine")
    call = {"settings": made.settings, "digest": made.digest, "modules": made.modules(), "spec": spec}
    said = run(SCORE, json.dumps(dict(call, folder=entry.folder, img=str(tmp_path / "img"))))
    here = RUNS["predict"](engine_models.in_process(spec, entry), (tmp_path / "img").read_bytes(), None)
    assert said.split() == [here, here]


@pytest.mark.parametrize(("version", "known"), [("2025.3.0-19807", False), ("2026.4.1-22982", True)])
def test_what_the_last_openvino_for_it_does_not_know_is_not_asked_of_it(
    version: str, known: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[dict[str, object]] = []

    def compile_model(source: object, device: str, config: dict[str, object]) -> None:
        asked.append(config)
        raise RuntimeError("it is not there")

    monkeypatch.setattr(compiling, "_cores", {})
    core = SimpleNamespace(compile_model=compile_model, get_versions=lambda device: {})
    openvino = SimpleNamespace(Core=lambda: core, get_version=lambda: version)
    with pytest.raises(ModelError):
        compiling.compile_model(openvino, Entry(str(tmp_path), "x", "b"), Setup("f32"), 1)
    assert {"CACHE_MODE" in config for config in asked} == {known}
