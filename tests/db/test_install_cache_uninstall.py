"""uninstall takes from the hosts what only this database has put there, on every segment and the coordinator."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from catalog import another_database
from hosts import cached, leave_hosts

from dbinfer.install import InstallOptions, install, uninstall
from dbinfer.models import deploy, drop

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
# on every segment, and on Greenplum's coordinator, also in its reader process
SCORE = (
    "SELECT count(dbinfer.predict(img, '{0}')) FROM images",
    "SELECT dbinfer.predict(img, '{0}') FROM (SELECT * FROM images LIMIT 2) few",
    "CREATE TEMP TABLE found AS SELECT l.id, dbinfer.predict(l.img, '{0}') FROM (SELECT * FROM images "
    "ORDER BY id LIMIT 3) l JOIN pg_class c ON c.relname = 'pg_class'",
)


@pytest.fixture
def before(server_dsn: str) -> set[tuple[object, ...]]:
    """What lies on the hosts, of databases that other tests have dropped or still have."""
    return cached(server_dsn)


@pytest.fixture
def two(server_dsn: str, venv: Path) -> Iterator[tuple[str, str]]:
    """Two databases of the same cluster, and so of the same caches."""
    with another_database(server_dsn, "test_cache_first") as one:
        with another_database(server_dsn, "test_cache_second") as other:
            for dsn in (one, other):
                install(InstallOptions(venv=str(venv)), dsn)
            try:
                yield one, other
            finally:
                leave_hosts(other)
        leave_hosts(one)


def score(dsn: str, folder: Path, *names: str) -> None:
    """Deploy and use models; the files of one name are the same in all databases."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        make_images(db, "images", [IMAGE], 60)
        for name in names:
            file = folder / f"{name}.xml"
            deploy(file if file.exists() else tiny_models.constant(folder, int(name[1:]), name), dsn=dsn)
            for query in SCORE:
                rows(db, query.format(name))
            rows(db, "DROP TABLE found")


@pytest.mark.wide
def test_what_only_this_database_uses_goes(
    two: tuple[str, str], before: set[tuple[object, ...]], server_dsn: str, tmp_path: Path
) -> None:
    one, other = two
    score(one, tmp_path, "m1", "m2")
    score(other, tmp_path, "m2")
    drop("m1", True, one)  # a version that is no longer in the registry
    with_both = cached(server_dsn)
    places = {row[0] for row in with_both - before if row[1].startswith("dbinfer_cache")}
    assert uninstall(one).message.endswith(" is removed.")
    left = cached(server_dsn)
    assert {row[0] for row in with_both - left} >= places, "one model went from every host"
    assert {row[0] for row in left - before} >= places, "the other database's model stays on every host"
    score(other, tmp_path, "m2")
    assert {row for row in cached(server_dsn) - left if row[1].startswith("dbinfer_cache")} == set(), (
        "it was still there"
    )
    uninstall(other)
    assert cached(server_dsn) <= before


@pytest.mark.wide
def test_what_only_dropped_databases_have_used_goes_too(
    two: tuple[str, str], before: set[tuple[object, ...]], server_dsn: str, venv: Path, tmp_path: Path
) -> None:
    with another_database(server_dsn, "test_cache_dropped", tidy=False) as third:
        install(InstallOptions(venv=str(venv)), third)
        score(third, tmp_path, "m3")
    assert not cached(server_dsn) <= before
    uninstall(two[0])
    assert cached(server_dsn) <= before


@pytest.mark.wide
def test_where_the_hosts_cannot_be_asked_the_database_goes_all_the_same(two: tuple[str, str]) -> None:
    with closing(psycopg2.connect(two[0])) as db:
        db.autocommit = True
        rows(db, "DROP FUNCTION dbinfer_private.leave_here()")
    message = uninstall(two[0]).message
    assert (
        "Model files stay in the host caches (function dbinfer_private.leave_here() does not exist)"
        in message
    )
    with closing(psycopg2.connect(two[0])) as db:
        assert ask(db, "SELECT to_regnamespace('dbinfer_private')") is None
