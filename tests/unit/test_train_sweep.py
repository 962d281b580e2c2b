"""`dbinfer bench train --sweep`: every size is trained together and apart; the table, the figure and the answer."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from train_runs import needs_horovod, strokes_folder

from dbinfer.base.errors import UsageError
from dbinfer.bench.training import Point, SweepReport, sweep
from dbinfer.train import TrainJob


def report(*efficiencies: float) -> SweepReport:
    points = [Point(2**number, 2, 100 * value, 100.0) for number, value in enumerate(efficiencies)]
    return SweepReport("width", points, Path("sweep.png"))


def test_the_smallest_size_is_the_one_from_which_on_it_pays() -> None:
    assert report(0.5, 0.92, 0.95).smallest == 2
    assert report(0.95, 0.5, 0.92).smallest == 4  # a lucky small size is no answer
    assert report(0.95, 0.92, 0.5).smallest is None
    assert report(0.9).to_dict()["smallest"] == 1


def test_the_exchange_is_what_is_missing_of_a_step() -> None:
    assert report(0.75).points[0].exchange == pytest.approx(0.25)
    assert report(1.02).points[0].exchange == 0


@needs_horovod
@pytest.mark.parametrize("widths", [[4, 2]] if os.environ.get("LONG") else [[2]], ids=str)
@pytest.mark.wide
def test_every_width_is_trained_together_and_apart(tmp_path: Path, widths: list[int]) -> None:
    data = strokes_folder(tmp_path / "images", range(8))
    options = {"size": 16, "depth": 1, "base_width": 2}
    given = {"network_options": options, "epochs": 2, "batch": 2, "ranks": 2, "launcher": "mpi"}
    job = TrainJob("unet", str(data), out=str(tmp_path / "out"), **given)  # type: ignore[arg-type]
    said: list[str] = []
    found = sweep(job, "width", widths, said.append)
    widths = sorted(widths)
    assert said == [
        line for width in widths for line in (f"width {width}: 2 ranks", "2 independent processes at once")
    ]
    assert [(one.value, one.ranks) for one in found.points] == [(width, 2) for width in widths]
    assert all(one.together > 0 and one.independent > 0 for one in found.points)
    assert [row[0] for row in found.rows()] == [str(width) for width in widths]
    assert found.figure.read_bytes().startswith(b"\x89PNG")


def test_what_cannot_be_swept(tmp_path: Path) -> None:
    job = TrainJob("digits", "digits", out=str(tmp_path), ranks=2)
    with pytest.raises(UsageError, match="sweep is 'depth', but must be one of width, batch, ranks"):
        sweep(job, "depth")
    with pytest.raises(UsageError, match="the network digits does not accept the options"):
        sweep(job, "width")
    with pytest.raises(UsageError, match="ranks is 1, but a sweep compares at least 2"):
        sweep(job, "ranks", [1])
