"""`dbinfer cache` on a cluster: the caches of segments and coordinator are listed, pruned, kept within the limit."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, role, rows
from hosts import cached
from psycopg2.extensions import connection as Connection
from typer.testing import CliRunner

from dbinfer.cli.app import app
from dbinfer.install import InstallOptions, install
from dbinfer.install.hosts import CacheOptions, HostCache, cache
from dbinfer.models import deploy, drop

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
NAMES = ("a1", "a2", "a3")
HOUR = 3600
SCORE = (
    "SELECT count(dbinfer.predict(img, '{}')) FROM many",
    "SELECT dbinfer.predict(img, '{}') FROM (SELECT * FROM many LIMIT 2) few",  # on the coordinator
)
# Lets all models of a cache seem unused for so many seconds.
AGE = """
CREATE OR REPLACE FUNCTION age(seconds integer) RETURNS integer LANGUAGE plpython3u VOLATILE AS $$
import glob, os, time
return sum(os.utime(path, (time.time() - seconds,) * 2) is None for path in glob.glob("dbinfer_cache/*"))
$$"""


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for name in NAMES:
        deploy(tiny_models.large(folder, int(name[1:]), name), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        make_images(db, "many", [IMAGE], 60)
        rows(db, AGE)


@pytest.fixture
def empty(db: Connection) -> Iterator[None]:
    """Caches without this database's models."""
    everywhere(db, "dbinfer_private.leave_here()")
    yield
    everywhere(db, "dbinfer_private.leave_here()")


def everywhere(db: Connection, call: str) -> None:
    """Call a function on every segment and on the coordinator."""
    rows(db, f"SELECT {call}")
    rows(db, f"SELECT {call} FROM gp_dist_random('gp_id')")


def score(db: Connection, name: str) -> None:
    """Use a model on every segment and on the coordinator."""
    for query in SCORE:
        rows(db, query.format(name))


def models_in(dsn: str) -> list[int]:
    """Return how many models each cache has, the coordinator's first."""
    return [one.models for one in cache(dsn=dsn).caches]


@pytest.mark.usefixtures("empty")
def test_all_caches_are_listed(db: Connection, dsn: str) -> None:
    before = models_in(dsn)
    score(db, "a1")
    found = cache(dsn=dsn).caches
    places = rows(
        db, "SELECT content, hostname, datadir FROM gp_segment_configuration WHERE role = 'p' ORDER BY 1"
    )
    assert [(one.content, one.host, one.folder) for one in found] == [
        (content, host, f"{folder}/dbinfer_cache") for content, host, folder in places
    ]
    assert [one.models for one in found] == [count + 1 for count in before]
    assert all(one.used_bytes > 2e6 and one.free_bytes > 0 for one in found)
    shown = CliRunner().invoke(app, ["cache", "--dsn", dsn], env={"COLUMNS": "200"})
    assert shown.exit_code == 0, shown.output
    assert "coordinator" in shown.output
    assert all(one.folder in shown.output for one in found)
    told = json.loads(CliRunner().invoke(app, ["cache", "--dsn", dsn, "--json"]).stdout)
    assert [HostCache(**one).content for one in told["caches"]] == [one.content for one in found]


@pytest.mark.usefixtures("empty")
def test_prune_removes_what_no_version_uses_everywhere(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.large(tmp_path, 8, "a8"), dsn=dsn)
    for name in ("a1", "a8"):
        score(db, name)
    drop("a8", True, dsn)
    cache(CacheOptions(prune=True), dsn)  # what other tests have left, which may be an hour old
    before = models_in(dsn)
    assert [one.removed for one in cache(CacheOptions(prune=True), dsn).caches] == [0] * len(before), (
        "too young"
    )
    everywhere(db, f"age({2 * HOUR})")
    after = cache(CacheOptions(prune=True), dsn).caches
    assert [one.removed for one in after] == [1] * len(before)
    assert all(one.removed_bytes > 2e6 for one in after)
    assert [one.models for one in after] == [count - 1 for count in before]
    score(db, "a1")


@pytest.mark.usefixtures("empty")
def test_each_cache_keeps_its_limit(db: Connection, dsn: str, server_dsn: str) -> None:
    others = cached(server_dsn)
    install(InstallOptions(cache_limit_mb=6), dsn)
    try:
        for name in ("a1", "a2"):
            score(db, name)
        everywhere(db, f"age({2 * HOUR})")
        with closing(psycopg2.connect(dsn)) as other:
            score(other, "a3")
        ours = [row for row in cached(server_dsn) - others if row[1].startswith("dbinfer_cache/")]
        segments = ask(db, "SELECT count(*) FROM gp_segment_configuration WHERE role = 'p'")
        assert len(ours) == 2 * segments, ours
        for name in NAMES:  # a session that held what went goes on
            score(db, name)
    finally:
        rows(db, "SELECT dbinfer.set_setting('cache_limit_mb', '10240')")


def test_an_administrator_sees_the_segments(db: Connection) -> None:
    segments = ask(db, "SELECT count(*) FROM gp_segment_configuration WHERE role = 'p' AND content >= 0")
    with role(db, "dbinfer_admin"):
        assert len(rows(db, "SELECT dbinfer._cache(true)")) == segments
