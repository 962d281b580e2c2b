"""`dbinfer plan`: the last job on the table, else rows that are scored now, else the model's trial."""

from __future__ import annotations

import json
from importlib import import_module

import numpy as np
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from psycopg2.extensions import connection as Connection
from typer.testing import CliRunner

from dbinfer.base.errors import DataError, RegistryError, UsageError
from dbinfer.cli.app import app
from dbinfer.models import DeployOptions, deploy
from dbinfer.plan import PlanOptions, PlanReport, plan
from dbinfer.score import score

SMALL, LARGE = np.zeros((60, 80, 3), np.uint8), np.zeros((3000, 4000, 3), np.uint8)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder, "planned"), dsn=dsn)
    deploy(tiny_models.constant(folder, 5, "secret"), DeployOptions(private=True), dsn=dsn)


@pytest.fixture(autouse=True)
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment is enough for tests."""
    monkeypatch.setattr(import_module("dbinfer.plan"), "SECONDS", 0.1)


def found(dsn: str, model: str = "planned", **values: object) -> PlanReport:
    options = PlanOptions(**{"images": 1e6, "host_count": 1, **values})  # type: ignore[arg-type]
    return plan(model, options, dsn)


def notes_on_images(report: PlanReport) -> list[str]:
    """Return the notes but that of a cluster, whose rows are spread."""
    return [note for note in report.notes if "segment hosts" not in note]


def on_cluster(db: Connection) -> bool:
    return bool(ask(db, "SELECT to_regclass('pg_catalog.gp_segment_configuration')"))


@pytest.mark.wide
def test_without_a_table_the_trial_counts(db: Connection, dsn: str) -> None:
    report = found(dsn)
    trial = ask(db, "SELECT trial FROM dbinfer.model_versions WHERE name = 'planned'")
    assert (report.model, report.function, report.source) == ("planned@1", "classify", "trial")
    assert report.cores == min(ask(db, "SELECT array_agg(cores) FROM dbinfer.segments"))
    rate = 820 / (trial["milliseconds"] + 1.02) * report.workers
    # the precision was chosen by more images than the trial's own three
    assert report.images_per_second == pytest.approx(rate, rel=0.2)
    assert found(dsn, kilobytes=4000.0).hours > report.hours


def test_processes_are_those_that_the_server_starts(db: Connection, dsn: str) -> None:
    if on_cluster(db):
        pytest.skip("segments score on a cluster, however many workers a plan may have")
    few = f"{dsn} options='-c max_parallel_workers_per_gather=8 -c max_parallel_workers=3'"
    assert found(few).segments == 1 + min(3, int(ask(db, "SHOW max_worker_processes")))


def test_a_role_that_is_not_told_the_hosts(db: Connection, dsn: str) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        theirs = f"{dsn} options='-c role={name}'"
        if on_cluster(db):
            with pytest.raises(UsageError, match="not told which segments share a host"):
                found(theirs)
        assert found(theirs, segments=3).segments == 3
        rows(db, f"SET ROLE {name}")


def test_rows_of_the_table_are_scored_now(db: Connection, dsn: str) -> None:
    make_images(db, "plan_small", [tiny_models.file(SMALL), None], copies=20)
    make_images(db, "plan_large", [tiny_models.file(LARGE)], copies=4)
    small, large = (found(dsn, table=f"plan_{name}", images=None) for name in ("small", "large"))
    assert (large.source, large.images) == ("table", 4)
    assert (small.source, small.images, notes_on_images(small)) == ("table", 40, [])
    assert "rows of public.plan_small scored now" in small.measured
    rows(db, "DROP TABLE public.plan_small, public.plan_large")


@pytest.mark.wide
def test_a_large_table_is_sampled(db: Connection, dsn: str) -> None:
    make_images(db, "plan_many", [tiny_models.file(SMALL)], copies=5000)
    rows(db, "ANALYZE public.plan_many")
    report = found(dsn, table="public.plan_many", images=None)
    assert (report.source, report.images) == ("table", 5000)
    assert found(dsn, table="public.plan_many", host_count=3).images_per_second_host > 0
    rows(db, "DROP TABLE public.plan_many")


def test_the_last_job_on_the_table_counts(db: Connection, dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    make_images(db, "plan_job", [tiny_models.file(SMALL)], copies=30)
    # one key for each row
    rows(db, "DROP TABLE IF EXISTS public.plan_keyed")
    rows(db, "CREATE TABLE public.plan_keyed AS SELECT row_number() OVER () AS id, img FROM public.plan_job")
    score("public.plan_keyed", "public.plan_scored", dsn=dsn)
    assert found(dsn, table="public.plan_keyed").source == "table"
    monkeypatch.setattr(import_module("dbinfer.plan"), "JOB_SECONDS", 0.0)
    report = found(dsn, table="plan_keyed")
    number, done, rate = rows(db, "SELECT id, done, rate FROM dbinfer.jobs ORDER BY id DESC LIMIT 1")[0]
    assert (report.source, done) == ("job", 30)
    assert report.measured.startswith(f"job {number} scored 30 rows in ")
    assert report.images_per_second == pytest.approx(rate)
    rows(db, "DROP TABLE public.plan_job, public.plan_keyed, public.plan_scored, public.plan_scored_errors")


def test_values_that_are_no_images_are_told(db: Connection, dsn: str) -> None:
    make_images(db, "plan_odd", [tiny_models.file(SMALL), b"text", b"", b"\xff\xd8\xff"])
    (note,) = notes_on_images(found(dsn, table="public.plan_odd"))
    assert note.endswith("rows of public.plan_odd hold no image that can be read")
    rows(db, "DROP TABLE public.plan_odd")


def test_a_view_is_looked_at_too(db: Connection, dsn: str) -> None:
    make_images(db, "plan_base", [tiny_models.file(SMALL)], copies=3)
    rows(db, "CREATE VIEW public.plan_view AS SELECT img AS picture FROM public.plan_base")
    assert found(dsn, table="public.plan_view", column="picture", images=None).images == 3
    rows(db, "DROP VIEW public.plan_view; DROP TABLE public.plan_base")


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"table": "public.nowhere"}, "there is no table public.nowhere"),
        ({"table": "dbinfer.models"}, "dbinfer.models has no column 'img' of type bytea"),
        ({"table": "dbinfer.models", "column": "name"}, "has no column 'name' of type bytea"),
    ],
)
def test_tables_that_do_not_serve(dsn: str, values: dict[str, str], words: str) -> None:
    with pytest.raises(DataError) as raised:
        found(dsn, **values)
    assert words in raised.value.message


def test_a_table_without_images(db: Connection, dsn: str) -> None:
    make_images(db, "plan_empty", [None])
    with pytest.raises(DataError, match="holds no image in its column 'img'"):
        found(dsn, table="public.plan_empty")
    rows(db, "DROP TABLE public.plan_empty")


def test_models_that_are_not_deployed(dsn: str) -> None:
    for model in ("resnet50", "planned@7", "planned@candidate"):
        with pytest.raises(RegistryError, match=f"no model '{model}' is deployed"):
            found(dsn, model)


def test_a_model_that_the_role_may_not_run(db: Connection, dsn: str) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        with pytest.raises(RegistryError, match="may not be looked at by your role"):
            found(f"{dsn} options='-c role={name}'" if "=" in dsn else dsn, "secret")
        rows(db, f"SET ROLE {name}")


def test_the_command(dsn: str) -> None:
    words = ["plan", "--images", "2k", "--model", "planned", "--dsn", dsn]
    done = CliRunner().invoke(app, [*words, "--hours", "90m", "--json"])
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["model"], report["hosts"], report["images"]) == ("planned@1", 1, 2000)
    done = CliRunner().invoke(app, [*words, "--hosts", "3"])
    assert "2k images with planned@1" in done.stdout
    assert "hint: --hosts is now --host-count" in done.stderr
