"""What all strategies have in common: names, help, and what is refused before anything is started."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from typer.testing import CliRunner

from dbinfer.base.errors import TrainError
from dbinfer.cli.app import app
from dbinfer.train import TrainJob, run
from dbinfer.train.options import STRATEGIES
from dbinfer.train.strategies import ALL


def test_the_default_is_the_first() -> None:
    assert TrainJob("digits", "digits").strategy == STRATEGIES[0] == "horovod"


def test_what_a_run_will_do_is_settled_without_tensorflow() -> None:
    """So mistakes in the data show at once, and split never has TensorFlow beside JAX."""
    program = """
import sys
from dbinfer.train import TrainJob, worker
from dbinfer.train.setup import make_setup

make_setup(TrainJob("digits", "digits")).close()
print(sorted({"tensorflow", "keras", "jax"} & set(sys.modules)))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert (done.stdout, done.stderr) == ("[]\n", "")


def test_help_says_when_to_use_each() -> None:
    shown = " ".join(CliRunner().invoke(app, ["train", "--help"]).output.split())
    assert [name for name in STRATEGIES if f"{name}: {ALL[name].when}" not in shown] == []


def test_a_gpu_that_is_not_there_is_named(tmp_path: Path) -> None:
    tensorflow = pytest.importorskip("tensorflow")
    if tensorflow.config.list_physical_devices("GPU"):
        pytest.skip("this host has a GPU")
    options = {"dropout": 0.0}  # sandblaster has another sentence for dropout
    job = TrainJob("digits", "digits", out=str(tmp_path), device="gpu", epochs=1, network_options=options)
    wanted = "a GPU was requested, but (TensorFlow|JAX) finds none on this host"
    for strategy in STRATEGIES if os.environ.get("LONG") else ("horovod",):
        if strategy == "split":
            pytest.importorskip("jax")
        with pytest.raises(TrainError, match=wanted):
            run(replace(job, strategy=strategy))


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name not in ("mirrored", "central")])
def test_a_host_that_cannot_be_reached_is_named(strategy: str, tmp_path: Path) -> None:
    """The other two train on this host only, and say so."""
    if strategy == "split":
        pytest.importorskip("jax")
    given = {"hosts": "localhost:1,nowhere.invalid:1", "private_network": "127.0.0.0/8"}
    job = TrainJob("digits", "digits", out=str(tmp_path), strategy=strategy, ranks=2, **given)  # type: ignore[arg-type]
    with pytest.raises(TrainError, match=r"the host nowhere\.invalid cannot be reached"):
        run(job)


def test_more_ranks_than_rows_are_refused_before_anything_starts(
    tmp_path: Path, subtests: pytest.Subtests
) -> None:
    for strategy in STRATEGIES:
        with subtests.test(strategy=strategy):
            if strategy == "split":
                pytest.importorskip("jax")
            job = TrainJob("digits", "digits", out=str(tmp_path), strategy=strategy, ranks=1439)
            with pytest.raises(TrainError, match="1439 ranks are more than the 1438 training images"):
                run(job)
