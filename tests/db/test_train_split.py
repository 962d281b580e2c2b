"""`dbinfer train --strategy split`: a network in two processes learns what it learns in one, and ends in SQL."""

from __future__ import annotations

import os
import signal
import threading
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg2
import pytest
from digit_tables import digit_table
from engine_processes import below, title
from float32 import tolerance
from variants import at_length

pytest.importorskip("jax")

from dbinfer.base.errors import TrainError
from dbinfer.convert import convert
from dbinfer.images import builtin
from dbinfer.models import DeployOptions, deploy
from dbinfer.train import TrainJob, run

QUERY = "SELECT img, label, id FROM parts"
LIMIT = 0.55  # parameters per process
# of the losses, which begin at log(10): two epochs of 8 steps, whose longest sums are over the pixels of 16 images
LOSS = tolerance(2.3, 2 * 8, 16 * 28 * 28)


@pytest.fixture(scope="module")
def images(dsn: str) -> str:
    return digit_table(dsn, "parts", 150)


def job(dsn: str, out: Path, **more: Any) -> TrainJob:
    given = {"strategy": "split", "batch": 16, "epochs": 2, "warmup": 0, "final": "last", "device": "cpu"}
    options = {"network_options": {"dropout": 0.0}, "val_fraction": 0.2}
    return TrainJob("digits", QUERY, dsn, **{**given, **options, "out": str(out), **more})


def apart(one: Any, other: Any) -> float:
    """Return the largest difference of losses between two runs."""
    pairs = zip(one.history, other.history, strict=True)
    return max(abs(a.values[name] - b.values[name]) for a, b in pairs for name in ("loss", "val_loss"))


@pytest.mark.wide
def test_two_processes_learn_what_one_learns_and_the_model_ends_in_sql(images: str, tmp_path: Path) -> None:
    alone = run(job(images, tmp_path / "alone"))
    assert alone.run["share_of_parameters"] == [1.0]
    parted = job(images, tmp_path / "parted", ranks=2)
    if os.environ.get("LONG"):
        run(replace(parted, epochs=1))
        parted = replace(parted, resume="1")
    result = run(parted)
    print(
        f"split digits: {result.run['share_of_parameters']} of the parameters, losses {apart(alone, result):.1e} apart"
    )
    assert apart(alone, result) <= LOSS
    assert result.run["mesh"] == [1, 2]
    assert max(result.run["share_of_parameters"]) <= LIMIT
    assert result.run["versions"]["jax"]

    convert(result.model, tmp_path / "digits.xml")
    deploy(tmp_path / "digits.xml", DeployOptions(name="split"), images)
    with closing(psycopg2.connect(images)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT avg(((dbinfer.classify(img, 'split')).class = label)::int)::float8 FROM parts")
        (accuracy,) = cursor.fetchone() or (0,)
        cursor.execute("SELECT provenance->'training'->>'strategy' FROM dbinfer.models WHERE name = 'split'")
        assert cursor.fetchone() == ("split",)
    # Over training and validation images together, both of which the run has counted with the last weights or earlier
    assert accuracy >= min(result.metrics["accuracy"], result.metrics["val_accuracy"]) - 0.05


@at_length
def test_a_network_of_which_nothing_is_split_is_refused(tmp_path: Path) -> None:
    """A U-Net has no dense layer; two processes would compute the same."""
    options = {"size": 16, "depth": 1, "base_width": 2}
    given = job("", tmp_path, network_options=options, ranks=2, val="none")
    with pytest.raises(
        TrainError, match="the layout dense-by-outputs splits no layer of the network unet into 2 parts"
    ):
        run(replace(given, network="unet", data="strokes:8"))


@at_length
def test_a_mesh_of_two_by_two_equals_one_of_two_by_one(images: str, tmp_path: Path) -> None:
    """Model parallel within data parallel; batch and learning rate are those of two groups in both."""
    groups = run(job(images, tmp_path / "groups", ranks=2, mesh="2x1"))
    both = run(job(images, tmp_path / "both", ranks=4, mesh="2x2", layout="dense-in-pairs"))
    assert both.run["share_of_parameters"] == pytest.approx([0.5227] * 4, abs=0.01)
    assert apart(groups, both) <= LOSS


@at_length
@pytest.mark.parametrize("layout", ["dense-by-outputs", "all-by-outputs"])
def test_the_real_alexnet_in_two_processes(tmp_path: Path, layout: str) -> None:
    """61 million parameters at 224 x 224, without dropout; half of them in each process."""
    for path, _ in builtin.write_digits(tmp_path / "images", "heldout")[24:]:
        path.unlink()
    options = {"batch": 8, "epochs": 1, "val": "none", "optimizer": "sgd", "keep": 0, "layout": layout}
    whole = replace(
        job("", tmp_path / "1", **options), network="alexnet", data=str(tmp_path / "images"), lr=1e-3
    )
    runs = [run(replace(whole, ranks=ranks, out=str(tmp_path / str(ranks)))) for ranks in (1, 2)]
    shares = runs[1].run["share_of_parameters"]
    losses = [one.history[0].values["loss"] for one in runs]
    print(f"split AlexNet, {layout}: {shares} of {runs[1].run['parameters']} parameters, losses {losses}")
    assert max(shares) <= LIMIT
    assert losses[0] == pytest.approx(losses[1], abs=LOSS)


@at_length
def test_a_killed_process_ends_the_others_with_one_sentence(images: str, tmp_path: Path) -> None:
    long = job(images, tmp_path / "killed", ranks=2, epochs=200)
    killer = threading.Thread(target=_kill_second, daemon=True)
    killer.start()
    with pytest.raises(TrainError, match="rank 1 stopped with signal 9, and the other ranks were ended"):
        run(long)


def _kill_second() -> None:
    """Kill the process that the first one has started, once there are both; other runs have theirs."""
    deadline = time.monotonic() + 120
    while time.monotonic() < deadline:
        for pid in below(os.getpid()):
            if title(pid).endswith("dbinfer.train.worker"):
                time.sleep(5)
                os.kill(pid, signal.SIGKILL)
                return
        time.sleep(0.2)
