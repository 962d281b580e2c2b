"""The harness on a tiny network: every method scores the same images, and nothing of it stays in the database."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import rows
from float32 import tolerance
from others import Client
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn, parse_dsn

from dbinfer.base.errors import ServerError
from dbinfer.base.progress import silent
from dbinfer.bench import engine, environment, measure, networks
from dbinfer.bench.database import database
from dbinfer.bench.methods import Skip, Sql
from dbinfer.bench.networks import ModelFiles, prepared
from dbinfer.bench.report import BenchOptions, Case, Sample
from dbinfer.bench.workers import workers

pytest.importorskip("sklearn")
CASE = Case("digits", "f32", "100x80", "classify", ("sql", "batch", "ctas", "bare", "benchmark_app"))
# of the digits: five sums of numbers below 10, the longest of 7 * 7 * 32 terms; then softmax
ROUNDING = tolerance(10.0, 5, 7 * 7 * 32)
MADE = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'dbinfer_bench%%'"


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModelFiles:
    monkeypatch.setattr(networks, "folder", lambda: tmp_path)
    made = prepared(tiny_models.colour_classifier(tmp_path), tmp_path / "none.keras", "f32")
    monkeypatch.setattr(networks, "model_files", lambda network, precision: made)
    monkeypatch.setattr(environment, "LOOKS", 1)  # the test machine is never quiet
    return made


@pytest.mark.wide
def test_all_methods_are_measured_and_all_is_dropped(db: Connection, dsn: str, files: ModelFiles) -> None:
    options = BenchOptions(rows=200, rounds=2, seconds=2, methods=("sql", "batch", "ctas", "bare"))
    with database(dsn) as opened, workers(2) as processes:
        more = {"client": Client}
        results, skipped = measure.measure_case(opened, processes, CASE, options, silent, more)
        assert [r.method for r in results] == ["sql", "batch", "ctas", "bare", "client"]
        assert [note for note in skipped if "other programs" not in note] == []
    known: dict[str, Any] = results[0].to_dict()
    assert all(r.images_per_s > 0 and r.ratio_bare and r.rounds == 2 for r in results)
    assert {"decode_us", "infer_us", "first_row_ms", "first_row_warm_ms"} <= set(known)
    assert {"pss_mb", "private_mb", "processes"} <= set(known)
    assert known["private_mb"] <= known["pss_mb"]
    assert rows(db, MADE) == [(0,)]
    assert rows(db, "SELECT count(*) FROM dbinfer.models") == [(0,)]


@pytest.mark.wide
def test_the_bare_loop_answers_what_the_database_answers(dsn: str, files: ModelFiles) -> None:
    options = BenchOptions(rows=32)
    with database(dsn) as opened, workers(1) as processes:
        context = measure.ready(opened, processes, CASE, options)
        score = files.scorer("classify")
        text = opened.format(
            "SELECT img, ({call})::text FROM {t}", call=context.call(), t=opened.table("big")
        )
        found = opened.rows(text)
        assert len(found) == context.rows
        assert all(_same(score(bytes(img)), answer) for img, answer in found)
        assert len({answer for _img, answer in found}) > 1


def _same(ours: str, theirs: str) -> bool:
    """Compare literals of dbinfer.classification, whose scores are real."""
    a, b = ours.strip("()").replace('"', "").split(","), theirs.strip("()").replace('"', "").split(",")
    return a[:2] == b[:2] and float(a[2]) == pytest.approx(float(b[2]), rel=ROUNDING)


@pytest.mark.wide
@pytest.mark.parametrize("isolation", ["always", "never"])
def test_sessions_are_measured_in_the_engine_and_in_backends(
    dsn: str, files: ModelFiles, isolation: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MANY", "LATENCIES"):
        monkeypatch.setattr(engine, name, 3)
    with database(dsn) as opened, workers(1) as processes:
        context = measure.ready(opened, processes, CASE, BenchOptions(rows=32))
        opened.rows("SELECT dbinfer.set_isolation(%s, %s)", (CASE.model, isolation))
        for measured in (engine.further_mb, engine.many_mb, engine.beside_a_scan):
            assert measured(context) > 0


@pytest.mark.wide
def test_a_cancel_is_measured_while_a_network_runs(
    db: Connection, dsn: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine, "CANCELS", 1)
    with database(dsn) as opened:
        name, seconds = engine.cancel_seconds(opened)
    assert (name, seconds > 0) == (engine.SLOW, True)
    assert rows(db, "SELECT count(*) FROM dbinfer.models") == [(0,)]


@pytest.mark.wide
def test_a_method_that_ends_its_backend_is_left_out(db: Connection, dsn: str, files: ModelFiles) -> None:
    class Ends(Sql):
        """What a foreign library does that crashes the server."""

        def measure(self) -> Sample:
            database = self.context.database
            try:
                database.run("SELECT pg_terminate_backend(pg_backend_pid())")
            except psycopg2.Error as err:
                database.again()
                raise Skip("ends: it is gone") from err
            raise AssertionError("the backend lives")

    options = BenchOptions(rows=32, rounds=1, seconds=0.1, methods=("sql",))
    with database(dsn) as opened, workers(1) as processes:
        results, skipped = measure.measure_case(opened, processes, CASE, options, silent, {"ends": Ends})
    assert [one.method for one in results] == ["sql"]
    assert "ends: it is gone" in skipped
    assert rows(db, MADE) == [(0,)]
    assert rows(db, "SELECT count(*) FROM dbinfer.models") == [(0,)]


def test_a_schema_that_cannot_be_made_is_one_sentence(dsn: str) -> None:
    # the dsn of a cluster's tests may have options already
    options = f"{parse_dsn(dsn).get('options', '')} -c default_transaction_read_only=on"
    with (
        pytest.raises(ServerError, match="cannot execute CREATE SCHEMA in a read-only transaction"),
        database(make_dsn(dsn, options=options)),
    ):
        pass


def test_a_run_that_fails_leaves_nothing(db: Connection, dsn: str, files: ModelFiles) -> None:
    def broken(opened: Any) -> None:
        opened.deploy(CASE, files)
        opened.run("SELECT 1/0")

    with pytest.raises(ServerError, match="division by zero"), database(dsn) as opened:
        broken(opened)
    assert rows(db, MADE) == [(0,)]
    assert rows(db, "SELECT count(*) FROM dbinfer.models") == [(0,)]
