"""The host cache: damaged, foreign and missing files, rights of the folder, racing backends, bound on models."""

from __future__ import annotations

import json
import shutil
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, rows
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import DeployOptions, deploy
from dbinfer.server import ServerReport

pytestmark = pytest.mark.postgres_only("looks into the data folder of a server on this machine")
IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
QUERY = "SELECT dbinfer.predict(%s, 'conv')"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.convolution(folder), dsn=dsn)
    for number in range(6):
        # in the backend, also where an engine runs that would serve the first rows
        options = DeployOptions(isolation="never")
        deploy(tiny_models.constant(folder, number, f"c{number}"), options, dsn=dsn)


@pytest.fixture
def cache(server: ServerReport, db: Connection) -> Iterator[Path]:
    """The cache folder, empty but for one model; the session that filled it is another one than `db`."""
    folder = Path(server.data_dir) / "dbinfer_cache"
    shutil.rmtree(folder, ignore_errors=True)
    with fresh(db) as other:
        ask(other, QUERY, IMAGE)
    yield folder
    if folder.exists():
        folder.chmod(0o700)


def fresh(db: Connection) -> closing[Connection]:
    """Return a new session on the same database."""
    connection = psycopg2.connect(db.dsn)
    connection.autocommit = True
    return closing(connection)


def only_file(cache: Path, name: str) -> Path:
    (found,) = cache.rglob(name)
    return found


def test_what_lies_there_is_private_and_right(cache: Path) -> None:
    assert cache.stat().st_mode & 0o777 == 0o700
    assert not list(cache.rglob("*.tmp"))
    names = {path.name for path in cache.rglob("*") if path.is_file()}
    assert {"model.xml", "model.bin", "stamp.json"} <= names
    folders = [path for path in cache.rglob("*") if path.is_dir()]
    assert [oct(path.stat().st_mode & 0o777) for path in folders] == ["0o700"] * len(folders)
    assert not [path for path in cache.rglob("*") if path.stat().st_mode & 0o022]


DAMAGES = {
    "bin overwritten": lambda cache: only_file(cache, "model.bin").write_bytes(b"\1" * 3000),
    "bin truncated": lambda cache: only_file(cache, "model.bin").write_bytes(b""),
    "one byte of bin": lambda cache: _flip(only_file(cache, "model.bin")),
    "bin missing": lambda cache: only_file(cache, "model.bin").unlink(),
    "xml of another model": lambda cache: only_file(cache, "model.xml").write_text("<net/>"),
    "xml missing": lambda cache: only_file(cache, "model.xml").unlink(),
    "stamp missing": lambda cache: [path.unlink() for path in cache.rglob("stamp.json")],
    "stamp broken": lambda cache: [path.write_text("[1") for path in cache.rglob("stamp.json")],
    "stamp of another kind": lambda cache: [path.write_text("[]") for path in cache.rglob("stamp.json")],
    "blob truncated": lambda cache: [
        path.write_bytes(path.read_bytes()[:100]) for path in cache.rglob("*.blob")
    ],
    "blob overwritten": lambda cache: [path.write_bytes(bytes(5000)) for path in cache.rglob("*.blob")],
    # none where an engine holds the model and had nothing to compile
    "blob of a stranger": lambda cache: [
        (path / "1.blob").write_bytes(b"x") for path in cache.rglob("blobs/*")
    ],
    "blobs missing": lambda cache: [shutil.rmtree(path) for path in cache.rglob("blobs")],
    "all missing": shutil.rmtree,
}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0xFF
    path.write_bytes(bytes(data))


@pytest.mark.parametrize(
    "damage", ["blob truncated", *wide(*(damage for damage in DAMAGES if damage != "blob truncated"))]
)
def test_damage_is_found_and_mended(db: Connection, cache: Path, damage: str) -> None:
    right = ask(db, QUERY, IMAGE)
    before = {kind: only_file(cache, f"model.{kind}").read_bytes() for kind in ("xml", "bin")}
    DAMAGES[damage](cache)
    with fresh(db) as other:
        assert ask(other, QUERY, IMAGE) == right
        assert ask(other, QUERY, IMAGE) == right
    assert ask(db, QUERY, IMAGE) == right
    assert {kind: only_file(cache, f"model.{kind}").read_bytes() for kind in ("xml", "bin")} == before
    assert not list(cache.rglob("*.tmp"))


def test_a_file_in_the_place_of_the_folder(db: Connection, cache: Path) -> None:
    shutil.rmtree(cache)
    cache.write_text("in the way")
    diag = refused(db, "55000", QUERY, IMAGE)
    assert str(cache.name) in (diag.message_primary or "")
    assert "--cache-dir" in (diag.message_hint or "")
    cache.unlink()
    assert len(ask(db, QUERY, IMAGE)) == 10


def test_a_folder_open_to_others(db: Connection, cache: Path) -> None:
    cache.chmod(0o755)
    diag = refused(db, "55000", QUERY, IMAGE)
    assert "open to others (mode 755)" in (diag.message_primary or "")
    assert (diag.message_hint or "").startswith("Close it: chmod 700")
    cache.chmod(0o700)
    assert len(ask(db, QUERY, IMAGE)) == 10


def test_a_folder_of_somebody_else(db: Connection, tmp_path: Path) -> None:
    for folder in ("/proc/nowhere", "/proc"):
        rows(db, "SELECT dbinfer_private.set_setting('cache_dir', %s)", folder)
        diag = refused(db, "55000", QUERY, IMAGE)
        assert folder in (diag.message_primary or "")
    rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'cache_dir'")
    assert len(ask(db, QUERY, IMAGE)) == 10


def test_a_folder_that_cannot_be_written_is_said(db: Connection, cache: Path) -> None:
    shutil.rmtree(next(path for path in cache.iterdir()))
    cache.chmod(0o500)
    diag = refused(db, "58030", QUERY, IMAGE)
    assert "cannot write to the cache folder" in (diag.message_primary or "")
    assert "--cache-dir" in (diag.message_hint or "")
    cache.chmod(0o700)
    assert len(ask(db, QUERY, IMAGE)) == 10


@pytest.mark.wide
def test_backends_racing_on_a_cold_cache(db: Connection, cache: Path) -> None:
    right = ask(db, QUERY, IMAGE)
    for _ in range(3):
        shutil.rmtree(cache)
        results: list[object] = []
        barrier = threading.Barrier(4)

        def race(results: list[object] = results, barrier: threading.Barrier = barrier) -> None:
            with fresh(db) as own:
                ask(own, "SELECT 1")
                barrier.wait()
                try:
                    results.append(ask(own, QUERY, IMAGE))
                except psycopg2.Error as err:
                    results.append(str(err))

        threads = [threading.Thread(target=race) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert results == [right] * 4
        assert not list(cache.rglob("*.tmp"))


def loaded(db: Connection) -> list[str]:
    found = ask(db, "SELECT models FROM dbinfer.segments")
    return found if isinstance(found, list) else json.loads(found)


@pytest.mark.in_backends("max_models bounds what a backend has loaded")
@pytest.mark.wide
def test_a_backend_keeps_so_many_models_and_drops_the_oldest(db: Connection) -> None:
    for number in range(6):
        assert ask(db, f"SELECT (dbinfer.predict(%s, 'c{number}'))[1]", IMAGE) == number
    assert loaded(db) == ["c2@1", "c3@1", "c4@1", "c5@1"]
    ask(db, "SELECT dbinfer.predict(%s, 'c2')", IMAGE)
    ask(db, "SELECT dbinfer.predict(%s, 'c0')", IMAGE)
    assert loaded(db) == ["c0@1", "c2@1", "c4@1", "c5@1"]


@pytest.mark.in_backends("max_models bounds what a backend has loaded")
def test_the_bound_counts_within_one_statement_too(db: Connection) -> None:
    rows(db, "SELECT dbinfer_private.set_setting('max_models', '2')")
    try:
        query = (
            "SELECT (dbinfer.predict(%s, m))[1] FROM (SELECT 'c' || n %% 6 AS m, n FROM generate_series(0, 17) n "
            "ORDER BY n OFFSET 0) x"
        )
        assert [row[0] for row in rows(db, query, IMAGE)] == [0, 1, 2, 3, 4, 5] * 3
        assert len(loaded(db)) == 2
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'max_models'")


def test_the_cache_folder_can_be_moved(db: Connection, server: ServerReport) -> None:
    folder = Path(server.data_dir) / "another cache"
    rows(db, "SELECT dbinfer_private.set_setting('cache_dir', %s)", str(folder))
    try:
        assert len(ask(db, QUERY, IMAGE)) == 10
        assert only_file(folder, "model.bin").exists()
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'cache_dir'")
