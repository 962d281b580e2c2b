"""`dbinfer bench train --devices`: one device against two; the table, the figure, and what is said without a GPU."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from train_runs import digits_folder, needs_horovod

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.bench.training import DeviceReport, Way, compare_devices
from dbinfer.train import Epoch, TrainJob


def epoch(number: int, seconds: float, accuracy: float = 0.5) -> Epoch:
    return Epoch(number, seconds, seconds / 4, 100, 0.1, {"val_accuracy": accuracy})


def test_the_table_tells_epoch_test_total_and_exchange() -> None:
    history = [epoch(1, 9.0), epoch(2, 2.0, 0.9), epoch(3, 4.0, 0.8)]
    report = DeviceReport("accuracy", [Way("cpu", 1, history), Way("cpu", 2, history, 62.5)], Path("x.png"))
    # The first epoch builds graphs: it counts for the total only
    assert report.rows() == [
        ["1 x cpu", "3.00", "0.75", "18.75", "50.0", "-", "0.9000"],
        ["2 x cpu", "3.00", "0.75", "18.75", "50.0", "0.20", "0.9000"],
    ]
    assert report.to_dict()["exchanges"] == {"1 x cpu": None, "2 x cpu": pytest.approx(0.2)}


@needs_horovod
@pytest.mark.skipif(not os.environ.get("LONG"), reason="trains three times: LONG=1")
def test_one_and_two_devices_are_trained(tmp_path: Path) -> None:
    data = digits_folder(tmp_path / "images", 40)
    job = TrainJob("digits", str(data), out=str(tmp_path / "out"), epochs=2, batch=4, ranks=2, launcher="mpi")
    said: list[str] = []
    report = compare_devices(job, ["cpu"], said.append)
    assert said == ["1 x cpu", "2 x cpu", "2 independent processes at once"]
    assert [(way.ranks, len(way.history), way.history[0].images) for way in report.ways] == [
        (1, 2, 36),
        (2, 2, 36),
    ]
    assert report.figure.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_compared(tmp_path: Path) -> None:
    import tensorflow as tf

    job = TrainJob("digits", "digits", out=str(tmp_path), ranks=2)
    with pytest.raises(UsageError, match="devices is 'tpu', but must be some of cpu, gpu"):
        compare_devices(job, ["tpu"])
    with pytest.raises(UsageError, match="ranks is 1, but devices are compared one against at least 2"):
        compare_devices(TrainJob("digits", "digits", out=str(tmp_path)), ["cpu"])
    if not tf.config.list_physical_devices("GPU"):
        with pytest.raises(TrainError, match="a GPU was requested, but TensorFlow finds none on this host"):
            compare_devices(job, ["cpu", "gpu"])
