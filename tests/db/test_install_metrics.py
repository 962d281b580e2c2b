"""`dbinfer metrics`: what the views say, as Prometheus reads it."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from bare_server import bare_server
from prometheus_client.parser import text_string_to_metric_families
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from workers import tables_only, until

import dbinfer
from dbinfer.base.errors import ServerError, UsageError
from dbinfer.install.metrics import OWN, READ, VIEWS, Exporter, MetricsOptions, metrics

IMAGE = tiny_models.file(tiny_models.picture(200, 10, 10))
ROWS = 30
Said = dict[tuple[str, ...], float]


@pytest.fixture(scope="module", autouse=True)
def scored(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """A job that scored most rows of a table, while usage was counted."""
    dbinfer.deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
        make_images(db, "images", [IMAGE], copies=ROWS)
        rows(db, "UPDATE images SET img = 'bad' WHERE id = 7")
        dbinfer.score(dsn=dsn)
        yield
        rows(
            db,
            "SELECT dbinfer.set_setting('usage', 'off'); DROP TABLE images, predictions, predictions_errors",
        )


def parsed(text: str) -> Said:
    """Return each value under the name of its metric and the values of its labels."""
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def asked(dsn: str) -> Said:
    return parsed(metrics(MetricsOptions(once=True), dsn).text)


def views(said: Said) -> dict[str, float]:
    return {key[1]: up for key, up in said.items() if key[0] == "dbinfer_view_up"}


@contextmanager
def watcher(db: Connection, dsn: str, *groups: str) -> Iterator[str]:
    """Yield the dsn of a role of these groups that may do nothing else."""
    with role(db, *groups) as name:
        yield make_dsn(dsn, options=f"-c role={name}")


def test_what_an_administrator_sees(db: Connection, dsn: str) -> None:
    said = asked(dsn)
    assert said["dbinfer_up",] == 1
    assert set(views(said).values()) == {1.0}
    assert said["dbinfer_info", dbinfer.__version__] == 1
    assert said["dbinfer_model_bytes", "colours", "classification", "1"] > 0
    assert said["dbinfer_jobs", "done"] == 1
    assert said["dbinfer_jobs", "lost"] == 0
    assert said["dbinfer_job_rows_total", "colours"] == ROWS
    assert said["dbinfer_job_bad_rows_total", "colours"] == 1
    assert said["dbinfer_scored_rows_total", "colours", "1"] >= ROWS
    assert said["dbinfer_scoring_seconds_total", "colours", "1"] > 0
    count = said["dbinfer_row_seconds_count", "colours", "1"]
    assert said["dbinfer_row_seconds_bucket", "+Inf", "colours", "1"] == count >= ROWS
    assert said["dbinfer_row_seconds_bucket", "10", "colours", "1"] > 0
    assert said["dbinfer_row_seconds_sum", "colours", "1"] > 0
    hosts = ask(db, "SELECT array_agg(DISTINCT host) FROM dbinfer.segments")
    assert sum(said["dbinfer_segments", host] for host in hosts) == ask(
        db, "SELECT count(*) FROM dbinfer.segments"
    )
    assert all(said["dbinfer_segments_faulty", host] == 0 for host in hosts)
    assert all(said["dbinfer_cache_bytes", host] > 0 for host in hosts)


def test_what_a_role_of_few_rights_sees(db: Connection, dsn: str) -> None:
    for groups, sees in ((("pg_monitor",), True), ((), False)):
        with watcher(db, dsn, *groups) as few:
            said = asked(few)
            assert said["dbinfer_up",] == 1
            assert (said.get(("dbinfer_scored_rows_total", "colours", "1"), 0) >= ROWS) is sees
            assert said["dbinfer_jobs", "done"] == int(sees)
            # of no host the name
            assert {key[1] for key in said if key[0].startswith(("dbinfer_segments", "dbinfer_cache"))} - {
                "primary",
                "mirror",
            } == {""}


def test_a_view_that_cannot_be_read_costs_its_own_metrics_alone(db: Connection, dsn: str) -> None:
    rows(db, "REVOKE SELECT ON dbinfer.jobs FROM PUBLIC")
    try:
        with watcher(db, dsn) as few:
            said = asked(few)
    finally:
        rows(db, "GRANT SELECT ON dbinfer.jobs TO PUBLIC")
    assert (said["dbinfer_view_up", "jobs"], said["dbinfer_view_up", "models"], said["dbinfer_up",]) == (
        0,
        1,
        1,
    )
    assert not any(key[0] == "dbinfer_jobs" for key in said)


def test_a_session_that_was_ended_begins_again_and_a_server_that_is_gone_is_told(
    db: Connection, dsn: str
) -> None:
    exporter = Exporter(dsn)
    try:
        pid = exporter.open()[0].info.backend_pid
        assert value(exporter, "dbinfer_up") == 1
        rows(db, "SELECT pg_terminate_backend(%s)", pid)
        assert value(exporter, "dbinfer_up") == 1
    finally:
        exporter.close()
    nowhere = Exporter("host=localhost port=1")
    assert value(nowhere, "dbinfer_up") == 0
    assert [each.name for each in nowhere.collect()] == [
        "dbinfer_up",
        "dbinfer_scrape_seconds",
        "dbinfer_view_up",
    ]
    with pytest.raises(ServerError, match="cannot connect"):
        asked("host=localhost port=1")


def value(exporter: Exporter, name: str) -> float:
    (sample,) = [sample for family in exporter.collect() for sample in family.samples if sample.name == name]
    return float(sample.value)


@pytest.mark.postgres_only("Greenplum has no triggers for rows on other hosts")
def test_a_queue_that_fills(db: Connection, dsn: str) -> None:
    rows(db, "CREATE TABLE scans AS SELECT id, img FROM images")
    rows(db, "ALTER TABLE scans ADD PRIMARY KEY (id)")
    dbinfer.follow("scans", "answers", dbinfer.FollowOptions(), dsn)
    try:
        dbinfer.score("scans", "answers", dbinfer.ScoreOptions(follow=True), dsn)
        rows(db, "INSERT INTO scans SELECT id + 1000, img FROM images LIMIT 4")
        until(lambda: asked(dsn)["dbinfer_follow_queue_rows", "public.answers_queue"] == 4, "the rows")
    finally:
        rows(db, "DROP TABLE scans, answers_queue CASCADE; DROP TABLE IF EXISTS answers, answers_errors")


def test_over_http_until_told_to_stop(dsn: str) -> None:
    words = [sys.executable, "-m", "dbinfer", "metrics", "--listen", "127.0.0.1:0", "--dsn", dsn]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout
            (url,) = re.findall("http://[^ ]+/metrics", process.stdout.readline())
            for _ in range(2):
                with urllib.request.urlopen(url, timeout=60) as answer:
                    assert answer.headers["Content-Type"].startswith("text/plain; version=")
                    said = parsed(answer.read().decode())
                assert said["dbinfer_up",] == 1
            port = url.split(":")[2].split("/")[0]
            with pytest.raises(UsageError, match=f"cannot listen at 127.0.0.1:{port}: "):
                metrics(MetricsOptions(f"127.0.0.1:{port}"), dsn)
        finally:
            process.send_signal(signal.SIGTERM)
    assert process.returncode == 128 + signal.SIGTERM


@pytest.mark.parametrize("listen", ["9187", "localhost", "localhost:port", "localhost:65536", ":9187"])
def test_an_address_that_is_none(listen: str) -> None:
    with pytest.raises(UsageError, match="must be HOST:PORT"):
        metrics(MetricsOptions(listen))


@pytest.mark.wide
def test_where_workers_score(tmp_path: Path) -> None:
    with bare_server() as bare, tables_only(bare) as dsn:
        dbinfer.deploy(tiny_models.colour_classifier(tmp_path), dsn=dsn)
        said = asked(dsn)
        assert set(views(said).values()) == {1.0}, views(said)
        assert said["dbinfer_model_bytes", "colours", "classification", "1"] > 0


def test_names_are_as_prometheus_wants_them() -> None:
    """Their base units and suffixes: https://prometheus.io/docs/practices/naming"""
    figures = [figure for view in (OWN, READ, *VIEWS.values()) for figure in view.figures]
    assert len({figure.name for figure in figures}) == len(figures)
    for figure in figures:
        assert re.fullmatch("[a-z]+(_[a-z]+)*", figure.name)
        assert not figure.name.endswith("_total")
        assert not re.search("_(ms|mb|milliseconds|minutes|percent)(_|$)", figure.name)


def test_the_page_has_each_metric() -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "monitor.md").read_text("utf-8")
    table = page.split("## Metrics")[1].split("## What to be told of")[0]
    known = {figure.metric for view in (OWN, READ, *VIEWS.values()) for figure in view.figures}
    assert set(re.findall(r"`(dbinfer_[a-z_]+)`", table)) == known
    told = re.findall(r"dbinfer_[a-z_]+", page.split("## What to be told of")[1])
    assert {name.removesuffix("_bucket") for name in told} <= known
