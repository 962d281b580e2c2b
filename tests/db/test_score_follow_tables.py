"""score --follow on tables of each kind: partitioned, with keys of several columns or of text, views, foreign ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from following import IMAGES, as_now, follow, paint
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import parse_dsn
from variants import wide

import dbinfer
from dbinfer.base.errors import DataError
from dbinfer.models import deploy
from dbinfer.report import ReportOptions, report

TREE = """
CREATE TABLE public.shelves (id integer, year integer, shop integer, img bytea, PRIMARY KEY (id, year, shop))
 PARTITION BY RANGE (year);
CREATE TABLE public.shelves_old PARTITION OF public.shelves FOR VALUES FROM (2000) TO (2020);
CREATE TABLE public.shelves_new PARTITION OF public.shelves FOR VALUES FROM (2020) TO (2030) PARTITION BY LIST (shop);
CREATE TABLE public.shelves_new_1 PARTITION OF public.shelves_new FOR VALUES IN (1);
CREATE TABLE public.shelves_new_2 PARTITION OF public.shelves_new FOR VALUES IN (2);
INSERT INTO public.shelves SELECT id, 2000 + id % 30, 1 + id % 2, img FROM public.images
"""
KEY = "id,year,shop"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    """A table of 60 images: red, green, blue, red, ..."""
    make_images(db, "images", list(IMAGES.values()), copies=20, equal=True)
    yield
    rows(
        db, "DROP TABLE IF EXISTS predictions, predictions_errors, predictions_queue, images, shelves CASCADE"
    )
    rows(db, "DROP FUNCTION IF EXISTS predictions_queue() CASCADE")


def page(dsn: str, folder: Path, table: str, key: str) -> int:
    """Return how many results a report on them has."""
    return report(table, "predictions", ReportOptions(out=folder / "page.html", key=key), dsn).rows


@pytest.mark.postgres_only("its partitions cannot have such keys, or triggers")
@pytest.mark.parametrize("queued", [True, *wide(False)])
def test_partitions_of_several_levels_that_are_attached_and_detached(
    db: Connection, dsn: str, tmp_path: Path, queued: bool
) -> None:
    rows(db, TREE)
    if queued:
        dbinfer.follow("shelves", options=dbinfer.FollowOptions(key=KEY), dsn=dsn)
    assert follow(dsn, "shelves", key=KEY).rows == 60
    # through the root, through a branch, and in a leaf
    paint(db, "blue", "id = 0", "shelves")
    paint(db, "blue", "id = 21", "shelves_new")
    rows(db, "DELETE FROM shelves_new_1 WHERE id = 22")
    rows(db, "UPDATE shelves SET year = 2025 WHERE id = 1")
    assert follow(dsn, "shelves", key=KEY).removed == 2
    as_now(db, "shelves", KEY)
    rows(db, "ALTER TABLE shelves_new DETACH PARTITION shelves_new_2")
    assert follow(dsn, "shelves", key=KEY).removed > 5
    as_now(db, "shelves", KEY)
    # other images under the same keys, written by the same transaction as those that were there
    rows(db, "CREATE TABLE public.other (LIKE public.shelves_new_2 INCLUDING ALL)")
    rows(db, "INSERT INTO other SELECT id, year, shop, %s FROM shelves_new_2", IMAGES["green"])
    rows(db, "ALTER TABLE shelves_new ATTACH PARTITION other FOR VALUES IN (2)")
    assert follow(dsn, "shelves", key=KEY).rows > 5
    as_now(db, "shelves", KEY)
    # into the one that was attached
    paint(db, "red", "true", "other")
    follow(dsn, "shelves", key=KEY)
    as_now(db, "shelves", KEY)
    assert page(dsn, tmp_path, "shelves", KEY) == ask(db, "SELECT count(*) FROM shelves")
    rows(db, "DROP TABLE shelves_new_2")


@pytest.mark.postgres_only("one transaction marks rows of two tables")
@pytest.mark.wide
def test_a_partition_that_takes_the_place_of_another_of_the_same_transaction(
    db: Connection, dsn: str
) -> None:
    rows(db, TREE)
    with closing(psycopg2.connect(dsn)) as other, other:
        rows(other, "CREATE TABLE public.twin (LIKE public.shelves_old INCLUDING ALL)")
        rows(other, "UPDATE shelves_old SET year = year")
        rows(other, "INSERT INTO twin SELECT id, year, shop, %s FROM shelves_old", IMAGES["green"])
    follow(dsn, "shelves", key=KEY)
    rows(db, "ALTER TABLE shelves DETACH PARTITION shelves_old; DROP TABLE shelves_old")
    rows(db, "ALTER TABLE shelves ATTACH PARTITION twin FOR VALUES FROM (2000) TO (2020)")
    assert follow(dsn, "shelves", key=KEY).rows > 0
    as_now(db, "shelves", KEY)


@pytest.mark.parametrize(
    ("columns", "values", "key"),
    [
        ("shop integer, number text", "id %% 7, 'n ''' || id / 7", "shop,number"),
        *wide(('id text COLLATE "C"', "'it''s {' || id", "id"), ("id uuid", "md5(id::text)::uuid", "id")),
    ],
)
@pytest.mark.wide
def test_keys_of_several_columns_and_of_text(
    db: Connection, dsn: str, tmp_path: Path, columns: str, values: str, key: str
) -> None:
    mpp = ask(db, "SELECT version() ~ 'Greenplum'")
    rows(db, f"CREATE TABLE public.shelves ({columns}, img bytea, PRIMARY KEY ({key}))")
    rows(db, f"INSERT INTO shelves SELECT {values}, img FROM images".replace("%%", "%"))
    if not mpp:
        dbinfer.follow("shelves", options=dbinfer.FollowOptions(key=key), dsn=dsn)
    assert follow(dsn, "shelves", key=key).rows == 60
    some = f"({key}) IN (SELECT {key} FROM shelves ORDER BY {key} OFFSET {{}} LIMIT 9)"
    paint(db, "blue", some.format(10), "shelves")
    rows(db, "DELETE FROM shelves WHERE " + some.format(30))
    rows(db, "UPDATE shelves SET img = 'bad' WHERE " + some.format(45))
    again = follow(dsn, "shelves", key=key)
    assert (again.errors, again.removed) == (6, 9)
    as_now(db, "shelves", key)
    assert page(dsn, tmp_path, "shelves", key) == 45


@pytest.mark.wide
def test_a_view_that_can_be_written_to(db: Connection, dsn: str, tmp_path: Path) -> None:
    rows(db, "CREATE VIEW public.seen AS SELECT id, img FROM images WHERE id < 30")
    assert follow(dsn, "seen").rows == 30
    paint(db, "blue", "id = 0", "seen")
    rows(db, "DELETE FROM seen WHERE id = 3; INSERT INTO seen VALUES (-1, %s)", IMAGES["green"])
    again = follow(dsn, "seen")
    assert (again.rows, again.removed) == (2, 1)
    as_now(db, "seen")
    assert page(dsn, tmp_path, "seen", "id") == 30
    if not ask(db, "SELECT version() ~ 'Greenplum'"):
        with pytest.raises(
            DataError, match=r"public\.seen is a view, and no trigger sees its rows change"
        ) as caught:
            dbinfer.follow("seen", dsn=dsn)
        assert "Follow the table that it shows" in caught.value.hint
    rows(db, "DROP VIEW seen")


@pytest.fixture
def elsewhere(db: Connection, dsn: str) -> Iterator[str]:
    """A foreign table of images, of this very server, as postgres_fdw shows it."""
    if not ask(db, "SELECT count(*) FROM pg_available_extensions WHERE name = 'postgres_fdw'"):
        pytest.skip("this server has no postgres_fdw")
    facts: dict[str, Any] = parse_dsn(dsn)
    place = {name: facts[name] for name in ("host", "port", "dbname") if name in facts}
    listed = ", ".join(f"{name} '{value}'" for name, value in place.items())
    if "passfile" in facts:
        password = Path(facts["passfile"]).read_text().split("\n", maxsplit=1)[0].rsplit(":", 1)[1]
        secret = f", password '{password}'"
    else:
        secret = ""
    rows(db, "CREATE EXTENSION IF NOT EXISTS postgres_fdw")
    rows(db, "DROP SERVER IF EXISTS loopback CASCADE")
    rows(db, f"CREATE SERVER loopback FOREIGN DATA WRAPPER postgres_fdw OPTIONS ({listed})")
    rows(db, f"CREATE USER MAPPING FOR CURRENT_USER SERVER loopback OPTIONS (user '{facts['user']}'{secret})")
    rows(db, "ALTER TABLE images ADD at timestamptz DEFAULT now()")
    rows(
        db,
        "CREATE FOREIGN TABLE public.far (id integer, img bytea, at timestamptz) SERVER loopback "
        "OPTIONS (schema_name 'public', table_name 'images')",
    )
    yield "far"
    rows(db, "DROP SERVER loopback CASCADE")


@pytest.mark.postgres_only("a segment would connect to the coordinator")
@pytest.mark.parametrize("column", [None, *wide("at")])
@pytest.mark.wide
def test_a_foreign_table(
    db: Connection, dsn: str, tmp_path: Path, elsewhere: str, column: str | None
) -> None:
    assert follow(dsn, elsewhere, changed_column=column).rows == 60
    rows(db, "UPDATE images SET img = %s, at = clock_timestamp() WHERE id < 6", IMAGES["blue"])
    rows(db, "DELETE FROM far WHERE id = 9; INSERT INTO far VALUES (100, %s, now())", IMAGES["red"])
    again = follow(dsn, elsewhere, changed_column=column)
    assert (again.rows, again.outdated, again.removed) == (5, 4, 1)
    as_now(db, elsewhere)
    assert page(dsn, tmp_path, elsewhere, "id") == 60
    with pytest.raises(DataError, match=r"public\.far is a foreign table, which changes on another server"):
        dbinfer.follow(elsewhere, dsn=dsn)


@pytest.mark.postgres_only("partitions elsewhere")
@pytest.mark.wide
def test_a_partition_that_is_a_foreign_table(db: Connection, dsn: str, elsewhere: str) -> None:
    rows(db, "CREATE TABLE public.shelves (id integer, img bytea, at timestamptz) PARTITION BY RANGE (id)")
    rows(db, "CREATE TABLE public.near PARTITION OF shelves FOR VALUES FROM (1000) TO (2000)")
    rows(db, "INSERT INTO shelves SELECT 1000 + id, img, at FROM images")
    dbinfer.follow("shelves", dsn=dsn)
    assert follow(dsn, "shelves").rows == 60
    rows(db, "ALTER TABLE shelves ATTACH PARTITION far FOR VALUES FROM (0) TO (1000)")
    assert follow(dsn, "shelves").rows == 60
    paint(db, "blue", "id = 0")
    # no trigger saw it, so the queue is not believed
    assert follow(dsn, "shelves").rows == 1
    as_now(db, "shelves")
