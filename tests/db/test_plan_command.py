"""`dbinfer plan` with a database: the model's trial, the table's images, rows and skew, the server's cores."""

from __future__ import annotations

import json
from importlib import import_module
from pathlib import Path

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
from dbinfer.plan.cost import SHIPPED, shipped

SMALL, LARGE = np.zeros((60, 80, 3), np.uint8), np.zeros((3000, 4000, 3), np.uint8)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder, "planned"), dsn=dsn)
    deploy(tiny_models.constant(folder, 5, "secret"), DeployOptions(private=True), dsn=dsn)


def found(dsn: str, model: str = "planned", **values: object) -> PlanReport:
    options = PlanOptions(**{"images": 1e6, "hosts": 1, **values})  # type: ignore[arg-type]
    return plan(model, options, dsn)


def test_the_trial_of_the_version_counts(db: Connection, dsn: str) -> None:
    report = found(dsn)
    trial = ask(db, "SELECT trial FROM dbinfer.model_versions WHERE name = 'planned'")
    assert report.model == "planned@1"
    assert report.function == "classify"
    assert report.row_ms["infer"] == pytest.approx(trial["milliseconds"], rel=0.5, abs=0.01)
    assert any(
        note.startswith("inference as in its trial, on the machine that deployed it: ")
        for note in report.notes
    )
    assert any(
        note.startswith(f"{report.cores} cores a host, as the database counts") for note in report.notes
    )
    assert report.cores == min(ask(db, "SELECT array_agg(cores) FROM dbinfer.segments"))


def test_processes_are_those_that_the_server_starts(db: Connection, dsn: str) -> None:
    if ask(db, "SELECT to_regclass('pg_catalog.gp_segment_configuration')"):
        pytest.skip("segments score on a cluster, however many workers a plan may have")
    few = f"{dsn} options='-c max_parallel_workers_per_gather=8 -c max_parallel_workers=3'"
    assert found(few).segments == 1 + min(3, int(ask(db, "SHOW max_worker_processes")))


def test_here_scales_images_alone(dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The network's time is that of its trial, on another machine; it was scaled, too."""
    twice = {name: 2 * value for name, value in shipped().machine["probe"].items()}
    monkeypatch.setattr(import_module("dbinfer.plan.calibration"), "probe", lambda: twice)
    plain, here = (found(dsn, here=here, coefficients=SHIPPED) for here in (False, True))
    assert here.row_ms["infer"] == plain.row_ms["infer"]
    assert here.row_ms["decode"] == pytest.approx(2 * plain.row_ms["decode"], rel=0.01)
    assert "this machine's speed (--here): images take 2 times as long as on the measured one" in here.notes


def test_a_role_that_is_not_told_the_hosts(db: Connection, dsn: str) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        theirs = f"{dsn} options='-c role={name}'"
        if ask(db, "SELECT to_regclass('pg_catalog.gp_segment_configuration')"):
            with pytest.raises(UsageError, match="not told which segments share a host"):
                found(theirs)
        assert found(theirs, segments=3).segments == 3
        rows(db, f"SET ROLE {name}")


def test_larger_images_of_a_table_take_longer(db: Connection, dsn: str) -> None:
    make_images(db, "plan_small", [tiny_models.file(SMALL), None], copies=20)
    make_images(db, "plan_large", [tiny_models.file(LARGE)], copies=4)
    small, large = (found(dsn, table=f"public.plan_{name}") for name in ("small", "large"))
    assert small.hours < large.hours
    assert "images as 20 of public.plan_small are" in small.notes
    rows_only = found(dsn, table="public.plan_small", images=None)
    assert rows_only.images == 40
    rows(db, "DROP TABLE public.plan_small, public.plan_large")


def test_values_that_are_no_images_are_told(db: Connection, dsn: str) -> None:
    make_images(db, "plan_odd", [tiny_models.file(SMALL), b"text", b"", b"\xff\xd8\xff"])
    assert "3 values of public.plan_odd are no images" in found(dsn, table="public.plan_odd").notes
    rows(db, "DROP TABLE public.plan_odd")


def test_a_view_is_looked_at_too(db: Connection, dsn: str) -> None:
    make_images(db, "plan_base", [tiny_models.file(SMALL)], copies=3)
    rows(db, "CREATE VIEW public.plan_view AS SELECT img AS picture FROM public.plan_base")
    report = found(dsn, table="public.plan_view", column="picture", images=None)
    assert (report.images, report.skew) == (3, 1)
    rows(db, "DROP VIEW public.plan_view; DROP TABLE public.plan_base")


def test_rows_on_one_segment_are_skew(db: Connection, dsn: str) -> None:
    if not ask(db, "SELECT to_regclass('pg_catalog.gp_segment_configuration')"):
        pytest.skip("PostgreSQL has no segments; parallel workers share a scan evenly")
    rows(db, "CREATE TABLE public.plan_skew (place integer, img bytea) DISTRIBUTED BY (place)")
    values = (tiny_models.file(SMALL),)
    rows(db, "INSERT INTO public.plan_skew SELECT 0, %s::bytea FROM generate_series(1, 30)", *values)
    segments = ask(db, "SELECT count(*) FROM gp_dist_random('gp_id')")
    skewed, even = found(dsn, table="public.plan_skew"), found(dsn, table="public.plan_skew", skew=1.0)
    assert skewed.skew == segments
    assert skewed.segments == segments
    assert skewed.hours > even.hours
    rows(db, "DROP TABLE public.plan_skew")


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


def test_the_command(dsn: str, tmp_path: Path) -> None:
    words = ["plan", "--images", "2k", "--model", "planned", "--hours", "90m", "--dsn", dsn, "--json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, done.output
    report = json.loads(done.stdout)
    assert (report["model"], report["hosts"], report["images"]) == ("planned@1", 1, 2000)
