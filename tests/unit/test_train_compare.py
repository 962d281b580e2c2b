"""`dbinfer bench train`: every way is trained; the table and the figure show them."""

from __future__ import annotations

from pathlib import Path

import pytest
from train_runs import digits_folder, needs_horovod
from typer.testing import CliRunner

from dbinfer.base.errors import UsageError
from dbinfer.bench.training import compare, table
from dbinfer.cli.app import app
from dbinfer.train import TrainJob


@needs_horovod
@pytest.mark.wide
def test_all_ways_are_trained_and_shown(tmp_path: Path) -> None:
    data = digits_folder(tmp_path / "images", 40)
    job = TrainJob("digits", str(data), out=str(tmp_path / "out"), epochs=2, batch=4, ranks=2, launcher="mpi")
    said: list[str] = []
    result = compare(job, said.append)
    assert said == [
        "2 ranks, data distributed",
        "2 ranks, each all data",
        "one process",
        "2 independent processes at once",
    ]
    images = [way.history[0].images for way in result.variants]
    assert images == [36, 72, 36]
    assert result.efficiency == pytest.approx(result.distributed.images_per_second / result.independent)
    columns, rows = table(result)
    assert [row[0] for row in rows] == ["1", "2"]
    assert len(columns) == len(rows[0]) == 4
    assert result.figure.read_bytes().startswith(b"\x89PNG")


def test_one_rank_cannot_be_compared(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="ranks is 1, but a comparison needs at least 2"):
        compare(TrainJob("digits", "digits", out=str(tmp_path)))
    result = CliRunner().invoke(app, ["bench", "train", "--ranks", "1", "--out", str(tmp_path)])
    assert isinstance(result.exception, UsageError)
