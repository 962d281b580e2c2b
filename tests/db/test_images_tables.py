"""load into tables: made, found, unfit; all or nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.base.progress import Progress
from dbinfer.images import load as images_load
from dbinfer.images.load import LoadOptions, load


@pytest.fixture(scope="module")
def dsn(empty_dsn: str) -> str:
    """Loading needs no dbinfer in the database."""
    return empty_dsn


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, colour in (("cat/1", 10), ("cat/ü", 20), ("dog/1", 30)):
        file = tmp_path / "photos" / f"{name}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(tiny_models.file(tiny_models.picture(colour, 0, 0)))
    return tmp_path / "photos"


@pytest.fixture(autouse=True)
def clean(db: Connection) -> Iterator[None]:
    yield
    rows(db, 'DROP TABLE IF EXISTS images, "Odd ""name"""')


def test_a_new_table_with_labels(db: Connection, dsn: str, photos: Path) -> None:
    report = load([photos], LoadOptions(label_from="folder"), dsn)
    assert (report.table, report.created, report.loaded, report.refused) == ("public.images", True, 3, ())
    found = rows(db, "SELECT path, label, img FROM images ORDER BY id")
    assert [row[:2] for row in found] == [
        ("photos/cat/1.png", "cat"), ("photos/cat/ü.png", "cat"), ("photos/dog/1.png", "dog"),
    ]  # fmt: skip
    assert [row[2] for row in found] == [(photos.parent / row[0]).read_bytes() for row in found]


def test_again_skips_and_new_files_join(db: Connection, dsn: str, photos: Path) -> None:
    load([photos], dsn=dsn)
    again = load([photos], dsn=dsn)
    assert (again.created, again.loaded, again.skipped) == (False, 0, 3)
    (photos / "new.png").write_bytes((photos / "cat/1.png").read_bytes())
    assert (more := load([photos], dsn=dsn)).loaded == 1
    assert more.skipped == 3
    assert ask(db, "SELECT count(*) FROM images") == 4


@pytest.mark.parametrize("batch", [1, 2, 10_000])
def test_known_paths_are_found_batch_by_batch(
    db: Connection, dsn: str, photos: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_load, "BATCH", batch)
    (photos / 'it\'s 100% \\ "new".png').write_bytes((photos / "cat/1.png").read_bytes())
    (photos / os.fsdecode(b"\xff.png")).write_bytes((photos / "cat/1.png").read_bytes())
    rows(db, "CREATE TABLE images (path varchar, img bytea)")
    load([photos / "cat"], LoadOptions(base=photos.parent), dsn)
    counts = [(report.loaded, report.skipped) for report in (load([photos], dsn=dsn) for _ in "ab")]
    assert counts == [(2, 2), (0, 4)]
    assert ask(db, "SELECT count(DISTINCT path) FROM images") == 4


@pytest.mark.postgres_only("parallel workers")
def test_the_table_is_set_for_parallel_scans(db: Connection, dsn: str, photos: Path) -> None:
    load([photos], dsn=dsn)
    options = ask(db, "SELECT reloptions FROM pg_class WHERE oid = 'images'::regclass")
    workers = max(1, int(ask(db, "SHOW max_parallel_workers")))
    assert sorted(options) == ["fillfactor=10", f"parallel_workers={workers}"]
    storage = "SELECT attstorage FROM pg_attribute WHERE attrelid = 'images'::regclass AND attname = 'img'"
    assert ask(db, storage) == "e"
    assert ask(db, "SELECT reltuples FROM pg_class WHERE oid = 'images'::regclass") == 3


@pytest.mark.postgres_only("parallel workers")
def test_workers_that_somebody_set_stay(db: Connection, dsn: str, photos: Path) -> None:
    rows(db, "CREATE TABLE images (path text, img bytea) WITH (parallel_workers = 7)")
    load([photos], dsn=dsn)
    assert ask(db, "SELECT reloptions FROM pg_class WHERE oid = 'images'::regclass") == ["parallel_workers=7"]


def test_bad_files_are_reported_and_the_rest_is_loaded(dsn: str, photos: Path) -> None:
    (photos / "cat" / "notes.txt").write_text("no image")
    (photos / "cat" / "zero.png").touch()
    report = load([photos], dsn=dsn)
    assert report.loaded == 3
    assert [Path(item.file).name for item in report.refused] == ["notes.txt", "zero.png"]


def test_nothing_loaded_leaves_no_table(db: Connection, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "zero.png").touch()
    report = load([tmp_path], dsn=dsn)
    assert (report.loaded, report.created, len(report.refused)) == (0, False, 1)
    assert ask(db, "SELECT to_regclass('images')") is None


def test_interrupted_leaves_nothing(db: Connection, dsn: str, photos: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load([photos], LoadOptions(), dsn, stop)
    assert ask(db, "SELECT to_regclass('images')") is None


def test_two_files_of_one_path(dsn: str, photos: Path) -> None:
    twin = photos / "twin" / "photos"
    twin.mkdir(parents=True)
    (twin / "1.png").write_bytes((photos / "cat/1.png").read_bytes())
    (photos / "1.png").write_bytes((photos / "cat/1.png").read_bytes())
    report = load([photos, twin], LoadOptions(), dsn)
    assert report.loaded == 5
    assert [item.reason for item in report.refused if "same path" in item.reason and "--base" in item.reason]


def test_the_schema_dbinfer_is_not_for_images(db: Connection, dsn: str, photos: Path) -> None:
    rows(db, "CREATE SCHEMA dbinfer")
    try:
        assert (
            load([photos], LoadOptions(), f"{dsn} options='-c search_path=dbinfer,public'").table
            == "public.images"
        )
    finally:
        rows(db, "DROP SCHEMA dbinfer")


def test_odd_names_and_other_columns(db: Connection, dsn: str, photos: Path) -> None:
    rows(db, 'CREATE TABLE "Odd ""name""" ("The 100% path" varchar(99), "Img" bytea, n serial)')
    options = LoadOptions('"Odd ""name"""', column='"Img"', path_column='"The 100% path"')
    assert load([photos], options, dsn).loaded == 3
    assert load([photos], options, dsn).skipped == 3
    assert ask(db, 'SELECT count(DISTINCT "The 100% path") FROM "Odd ""name"""') == 3


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ("path text", "has no column img"),
        ("img bytea", "has no column path"),
        ("path text, img text", "column img of table public.images is text, but must be bytea"),
        ("path text, img bytea, must integer NOT NULL", "must"),
    ],
)
def test_a_table_that_does_not_fit(
    db: Connection, dsn: str, photos: Path, columns: str, message: str
) -> None:
    rows(db, f"CREATE TABLE images ({columns})")
    with pytest.raises(DataError, match=message):
        load([photos], dsn=dsn)


def test_a_view_and_a_missing_schema(db: Connection, dsn: str, photos: Path) -> None:
    rows(db, "CREATE VIEW a_view AS SELECT 1 AS x")
    with pytest.raises(DataError, match="is not a table"):
        load([photos], LoadOptions("a_view"), dsn)
    with pytest.raises(DataError, match="nowhere"):
        load([photos], LoadOptions("nowhere.images"), dsn)


def test_a_load_says_for_whom_it_waits(db: Connection, dsn: str, photos: Path) -> None:
    """Any session may hold the lock of a load; that was silence without an end."""
    said: list[str] = []

    def hear(progress: Progress) -> None:
        if progress.note:
            said.append(progress.note)
            rows(db, "SELECT pg_advisory_unlock_all()")

    name = '"public"."images"'
    rows(db, "SELECT pg_advisory_lock(hashtext('dbinfer load'), hashtext(%s))", name)
    assert load([photos], dsn=dsn, progress=hear).loaded == 3
    pid, user = rows(db, "SELECT pg_backend_pid(), current_user")[0]
    assert said == [
        f"process {pid} of user {user} loads into this table, or holds the lock for that; waiting for its end."
    ]
