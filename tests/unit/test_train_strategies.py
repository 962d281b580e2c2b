"""What all strategies have in common: names, help, and what is refused before anything is started."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dbinfer.cli._app import app
from dbinfer.errors import TrainError
from dbinfer.train import TrainJob, run
from dbinfer.train.options import STRATEGIES
from dbinfer.train.strategies import ALL


def test_the_default_is_the_first() -> None:
    assert TrainJob("digits", "digits").strategy == STRATEGIES[0] == "horovod"


@pytest.mark.parametrize("name", STRATEGIES)
def test_help_says_when_to_use_each(name: str) -> None:
    shown = " ".join(CliRunner().invoke(app, ["train", "--help"]).output.split())
    assert f"{name}: {ALL[name].when}" in shown


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    if tensorflow.config.list_physical_devices("GPU"):
        pytest.skip("this host has a GPU")
    job = TrainJob("digits", "digits", out=str(tmp_path), device="gpu", epochs=1)
    for strategy in ("horovod", "mirrored") if os.environ.get("LONG") else ("horovod",):
        with pytest.raises(TrainError, match="a GPU was requested, but TensorFlow finds none on this host"):
            run(replace(job, strategy=strategy))
