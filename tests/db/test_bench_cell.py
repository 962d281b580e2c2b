"""The harness on a tiny network: every way scores the same images, and nothing of it stays in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import rows
from psycopg2.extensions import connection as Connection

from dbinfer.bench import cell as cells
from dbinfer.bench import networks
from dbinfer.bench.local import local_score
from dbinfer.bench.networks import ModelFiles, prepared
from dbinfer.bench.options import BenchOptions, Cell
from dbinfer.bench.pool import pool
from dbinfer.bench.tables import bench

pytest.importorskip("sklearn")
CELL = Cell(
    "digits", "f32", "100x80", "classify", ("sql", "batch", "ctas", "bare", "client", "benchmark_app")
)
MADE = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dbinfer_bench%%'"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFiles:
    monkeypatch.setattr(networks, "folder", lambda: tmp_path)
    made = prepared(tiny_models.colour_classifier(tmp_path), tmp_path / "none.keras", "f32")
    monkeypatch.setattr(cells, "model_files", lambda network, precision: made)
    return made


def quiet(step: str) -> None:
    pass


def test_all_ways_are_measured_and_all_is_dropped(db: Connection, dsn: str, files: ModelFiles) -> None:
    options = BenchOptions(
        rows=200, rounds=2, seconds=2, dsn=dsn, ways=("sql", "batch", "ctas", "bare", "client")
    )
    with bench(dsn) as made, pool(2) as processes:
        results, skipped = cells.measure_cell(made, processes, CELL, options, quiet)
        assert [r.way for r in results] == ["sql", "batch", "ctas", "bare", "client"]
        assert skipped == []
    facts: dict[str, Any] = results[0].to_dict()
    assert all(r.images_per_s > 0 and r.ratio_bare and r.rounds == 2 for r in results)
    assert {"decode_us", "infer_us", "first_row_ms", "pss_mb", "private_mb", "processes"} <= set(facts)
    assert facts["private_mb"] <= facts["pss_mb"]
    assert rows(db, MADE) == [(0,)]
    assert rows(db, "SELECT count(*) FROM dbinfer.models") == [(0,)]


def test_the_bare_loop_answers_what_the_database_answers(dsn: str, files: ModelFiles) -> None:
    options = BenchOptions(rows=32, dsn=dsn)
    with bench(dsn) as made, pool(1) as processes:
        context = cells.ready(made, processes, CELL, options)
        score = local_score(files, "classify")
        text = made.format("SELECT img, ({call})::text FROM {t}", call=context.call(), t=made.table("big"))
        found = made.rows(text)
        assert len(found) == context.rows
        assert all(_same(score(bytes(img)), answer) for img, answer in found)
        assert len({answer for _img, answer in found}) > 1


def _same(ours: str, theirs: str) -> bool:
    """Compare literals of dbinfer.classification, whose scores are real."""
    a, b = ours.strip("()").replace('"', "").split(","), theirs.strip("()").replace('"', "").split(",")
    return a[:2] == b[:2] and float(a[2]) == pytest.approx(float(b[2]), rel=1e-5)


def test_a_run_that_fails_leaves_nothing(db: Connection, dsn: str, files: ModelFiles) -> None:
    def broken(made: Any) -> None:
        made.deploy(CELL, files)
        made.run("SELECT 1/0")

    with pytest.raises(psycopg2.errors.DivisionByZero), bench(dsn) as made:
        broken(made)
    assert rows(db, MADE) == [(0,)]
    assert rows(db, "SELECT count(*) FROM dbinfer.models") == [(0,)]
