"""list_files and load --reference: what lies in a store becomes rows that name it, and follows what changes there."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator

import psycopg2
import pytest
import tiny_models
from asking import ask, on_server, refused, role, rows
from buckets import Door, bucket, refusing
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, UsageError
from dbinfer.images.load import LoadOptions, load
from dbinfer.models import deploy

IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
NAMES = [f"{folder}/{number}.png" for folder in ("cats", "dogs") for number in range(5)]


@pytest.fixture(scope="module")
def door() -> Iterator[Door]:
    with bucket() as made:
        yield made


@pytest.fixture(scope="module", autouse=True)
def stores(dsn: str, door: Door, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
    for name in NAMES:
        door.put(f"pets/{name}", IMAGE)
    door.put("petsitters/none.png", IMAGE)
    with psycopg2.connect(dsn) as db:
        rows(db, "SELECT dbinfer.add_store('pets', 's3://pictures/pets', %s, private => true)", door.url)
        rows(db, "SELECT dbinfer.add_store('web', %s, private => true)", f"{door.url}/pictures")


@pytest.fixture(autouse=True)
def tidy(db: Connection, door: Door) -> Iterator[None]:
    yield
    door.faults.clear()
    rows(db, "DROP TABLE IF EXISTS public.scans")


def listed(db: Connection, folder: str) -> list[str]:
    return [row[0] for row in rows(db, "SELECT reference FROM dbinfer.list_files(%s)", folder)]


def test_the_files_of_a_store(db: Connection, door: Door) -> None:
    for folder in ("pets", "pets/", "s3://pictures/pets"):
        assert listed(db, folder) == [f"pets/{name}" for name in NAMES]
    assert listed(db, "pets/dogs") == [f"pets/{name}" for name in NAMES[5:]]
    assert listed(db, "pets/dog") == []
    found = rows(db, "SELECT bytes, etag, modified <= now() FROM dbinfer.list_files('pets/cats') LIMIT 1")
    assert found == [(len(IMAGE), door.put("pets/cats/0.png", IMAGE), True)]


def test_each_is_an_image(db: Connection) -> None:
    query = "SELECT count(*) FROM dbinfer.list_files('pets') f WHERE dbinfer.image(f.reference, f.etag) = %s"
    assert ask(db, query, IMAGE) == len(NAMES)


def test_what_cannot_be_listed(db: Connection, door: Door) -> None:
    assert "does not list" in str(
        refused(db, "22023", "SELECT * FROM dbinfer.list_files('web')").message_primary
    )
    refused(db, "42501", "SELECT * FROM dbinfer.list_files('nobodys')")
    refused(db, "22P03", "SELECT * FROM dbinfer.list_files('pets/../x')")
    door.faults["list-type"] = refusing(403)
    assert "403" in str(refused(db, "58030", "SELECT * FROM dbinfer.list_files('pets')").message_primary)
    with role(db):
        refused(db, "42501", "SELECT * FROM dbinfer.list_files('pets')")


@pytest.mark.wide
def test_in_pages(db: Connection, door: Door) -> None:
    for number in range(2100):
        door.put(f"pages/{number:04}", b"x")
    rows(db, "SELECT dbinfer.add_store('pages', 's3://pictures/pages', %s, private => true)", door.url)
    assert listed(db, "pages") == [f"pages/{number:04}" for number in range(2100)]


@pytest.mark.postgres_only("the folder lies on this host")
def test_a_folder_of_the_host(db: Connection) -> None:
    folder = f"/tmp/dbinfer-test-listed-{os.getpid()}-{time.time_ns()}"
    on_server(
        db,
        f"mkdir -p {folder}/a/b && cd {folder} && printf abc > a/b/1.png && printf d > 2.png && ln -s /etc a/way",
    )
    rows(db, "SELECT dbinfer.add_store('disk', %s)", f"file://{folder}")
    try:
        found = "SELECT reference, bytes, etag FROM dbinfer.list_files(%s) ORDER BY 1"
        assert rows(db, found, "disk") == [("disk/2.png", 1, None), ("disk/a/b/1.png", 3, None)]
        assert rows(db, found, "disk/a") == [("disk/a/b/1.png", 3, None)]
        refused(db, "22P03", "SELECT * FROM dbinfer.list_files('disk/a/way')")
    finally:
        on_server(db, f"rm -r {folder}")


class TestLoad:
    OPTIONS = LoadOptions(table="scans", reference="pets", label_from="folder")

    def test_into_a_new_table_and_again(self, db: Connection, dsn: str, door: Door) -> None:
        done = load((), self.OPTIONS, dsn)
        assert (done.created, done.loaded, done.skipped, done.bytes) == (True, 10, 0, 10 * len(IMAGE))
        assert ask(db, "SELECT count(*) FROM scans WHERE path LIKE 'pets/' || label || '/%%.png'") == 10
        scored = "SELECT count(*) FROM dbinfer.classify_table('scans', 'colours', img_column => 'path')"
        assert ask(db, scored) == 10
        door.put("pets/dogs/9.png", IMAGE)
        again = load((), self.OPTIONS, dsn)
        assert (again.created, again.loaded, again.skipped, again.changed) == (False, 1, 10, 0)

    @pytest.mark.wide
    def test_files_that_have_changed(self, db: Connection, dsn: str, door: Door) -> None:
        load((), self.OPTIONS, dsn)
        old = ask(db, "SELECT id FROM scans WHERE path = 'pets/cats/0.png'")
        etag = door.put("pets/cats/0.png", IMAGE + b"more")
        try:
            found = load((), self.OPTIONS, dsn)
            assert (found.loaded, found.changed, found.updated) == (0, 1, 0)
            options = LoadOptions(table="scans", reference="pets/cats", label_from="folder", update=True)
            done = load((), options, dsn)
            assert (done.changed, done.updated, done.bytes) == (0, 1, len(IMAGE) + 4)
            assert rows(db, "SELECT id FROM scans WHERE etag = %s", etag) == [(old,)]
            assert load((), options, dsn).updated == 0
        finally:
            door.put("pets/cats/0.png", IMAGE)

    def test_what_is_wrong_is_one_sentence(self, db: Connection, dsn: str) -> None:
        with pytest.raises(DataError, match="there are no files in 'pets/birds'"):
            load((), LoadOptions(table="scans", reference="pets/birds"), dsn)
        assert ask(db, "SELECT to_regclass('public.scans')") is None
        with pytest.raises(UsageError, match="and no files"):
            load(["."], self.OPTIONS, dsn)
        rows(db, "CREATE TABLE public.scans (path text)")
        with pytest.raises(DataError, match="has no column etag, bytes, file_modified, loaded_at, label"):
            load((), self.OPTIONS, dsn)
