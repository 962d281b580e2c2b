"""load of a folder that changes: what has changed is told, and replaced when asked; tables of 0.1.0 take part."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.progress import Progress
from dbinfer.images import load as images_load
from dbinfer.images.load import LoadOptions, LoadReport, load
from dbinfer.images.table import ImageTable

OLD_TABLE = (
    "CREATE TABLE images (id bigserial, path text NOT NULL, img bytea NOT NULL, note text DEFAULT 'mine')"
)
STATE = "SELECT id, path, img, label, file_modified, loaded_at FROM images ORDER BY path"


@pytest.fixture(scope="module")
def dsn(empty_dsn: str) -> str:
    """Loading needs no dbinfer in the database."""
    return empty_dsn


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    (tmp_path / "photos").mkdir()
    for colour in (1, 2, 3):
        _write(tmp_path / "photos" / f"{colour}.png", colour)
    return tmp_path / "photos"


@pytest.fixture(autouse=True)
def clean(db: Connection) -> Iterator[None]:
    yield
    rows(db, "DROP TABLE IF EXISTS images")


def _write(file: Path, colour: int, more: bytes = b"") -> None:
    # as many bytes whatever the colour: what stands behind a PNG's end means nothing
    file.write_bytes(tiny_models.file(tiny_models.picture(colour, 0, 0)).ljust(100, b"\0") + more)


def _later(file: Path, seconds: float = 100.0) -> None:
    os.utime(file, (file.stat().st_atime, file.stat().st_mtime + seconds))


def _counts(report: LoadReport) -> tuple[int, int, int, int]:
    return report.loaded, report.skipped, report.changed, report.updated


@pytest.mark.parametrize("batch", [1, 20_000])
def test_changes_are_told_then_replaced(
    db: Connection, dsn: str, photos: Path, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_load, "BATCH", batch)
    options = LoadOptions(label_from="folder")
    assert _counts(load(photos, options, dsn)) == (3, 0, 0, 0)
    before = rows(db, STATE)
    _write(photos / "1.png", 1, b"longer")
    _write(photos / "2.png", 99)  # as many bytes, other ones
    _later(photos / "2.png")
    assert (photos / "2.png").stat().st_size == len(before[1][2])
    _later(photos / "3.png")  # touched: the same content
    _write(photos / "4.png", 4)
    assert _counts(load(photos, options, dsn)) == (1, 1, 2, 0)
    assert rows(db, STATE)[:3] == before
    told = load(photos, LoadOptions(label_from="folder", update=True), dsn)
    assert _counts(told) == (0, 2, 0, 2)
    assert told.bytes == sum((photos / f"{n}.png").stat().st_size for n in (1, 2))
    after = rows(db, STATE)
    assert [row[:2] for row in after[:3]] == [row[:2] for row in before]
    assert [row[2] for row in after] == [(photos / f"{n}.png").read_bytes() for n in (1, 2, 3, 4)]
    assert [row[5] > old[5] for row, old in zip(after, before, strict=False)] == [True, True, False]
    assert [row[4].timestamp() for row in after] == [
        (photos / f"{n}.png").stat().st_mtime_ns // 1000 / 1e6 for n in (1, 2, 3, 4)
    ]
    assert _counts(load(photos, options, dsn)) == (0, 4, 0, 0)


def test_a_touched_file_is_read_once_more_and_then_known(
    db: Connection, dsn: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(photos, dsn=dsn)
    _later(photos / "1.png")
    asked: list[int] = []
    digests = ImageTable.digests

    def counted(self: ImageTable, paths: Any) -> Any:
        asked.append(len(paths))
        return digests(self, paths)

    monkeypatch.setattr(ImageTable, "digests", counted)
    for update in (False, True, False):
        assert _counts(load(photos, LoadOptions(update=update), dsn)) == (0, 3, 0, 0)
    assert asked == [1, 1]


def test_a_table_without_times_compares_sizes_and_when_updating_contents(
    db: Connection, dsn: str, photos: Path
) -> None:
    rows(db, OLD_TABLE)
    assert _counts(load(photos, dsn=dsn)) == (3, 0, 0, 0)
    _write(photos / "1.png", 99)
    assert _counts(load(photos, dsn=dsn)) == (0, 3, 0, 0)
    assert _counts(load(photos, LoadOptions(update=True), dsn)) == (0, 2, 0, 1)
    _write(photos / "2.png", 2, b"longer")
    assert _counts(load(photos, dsn=dsn)) == (0, 2, 1, 0)
    assert ask(db, "SELECT count(DISTINCT id) FROM images WHERE note = 'mine'") == 3
    rows(db, "ALTER TABLE images ADD file_modified timestamptz")
    assert _counts(load(photos, LoadOptions(update=True), dsn)) == (0, 2, 0, 1)
    assert ask(db, "SELECT count(file_modified) FROM images") == 3


def test_columns_of_other_types_are_not_ours(db: Connection, dsn: str, photos: Path) -> None:
    rows(db, "CREATE TABLE images (path text, img bytea, file_modified text, loaded_at date)")
    load(photos, dsn=dsn)
    _write(photos / "1.png", 1, b"longer")
    assert _counts(load(photos, LoadOptions(update=True), dsn)) == (0, 2, 0, 1)
    assert ask(db, "SELECT count(file_modified) + count(loaded_at) FROM images") == 0


def test_what_changed_into_no_image_is_refused_and_stays(db: Connection, dsn: str, photos: Path) -> None:
    load(photos, dsn=dsn)
    before = rows(db, "SELECT * FROM images ORDER BY id")
    (photos / "1.png").write_text("no image any more")
    report = load(photos, LoadOptions(update=True), dsn)
    assert (_counts(report), len(report.refused)) == ((0, 2, 0, 0), 1)
    assert rows(db, "SELECT * FROM images ORDER BY id") == before


def test_interrupted_update_leaves_the_table(
    db: Connection, dsn: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_load, "BATCH", 1)
    load(photos, dsn=dsn)
    before = rows(db, "SELECT * FROM images ORDER BY id")
    for colour in (1, 2, 3):
        _write(photos / f"{colour}.png", colour, b"longer")

    def stop(progress: Progress) -> None:
        if progress.total and progress.done == progress.total:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        load(photos, LoadOptions(update=True), dsn, stop)
    assert rows(db, "SELECT * FROM images ORDER BY id") == before


def test_no_more_than_a_batch_is_asked_for_or_held(
    dsn: str, photos: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What a load holds does not grow with the table: known rows come back for one batch of files at a time."""
    load(photos, dsn=dsn)
    monkeypatch.setattr(images_load, "BATCH", 2)
    seen: list[tuple[int, int]] = []
    known = ImageTable.known

    def counted(self: ImageTable, paths: Any) -> Any:
        found = known(self, paths)
        seen.append((len(paths), len(found)))
        return found

    monkeypatch.setattr(ImageTable, "known", counted)
    load(photos / "3.png", dsn=dsn)
    load(photos, dsn=dsn)
    assert seen == [(1, 0), (2, 2), (1, 1)]


def test_progress_is_in_bytes_and_ends_at_the_total(dsn: str, photos: Path) -> None:
    told: list[Progress] = []
    load([photos, photos / "1.png"], dsn=dsn, progress=told.append)
    sizes = [(photos / f"{n}.png").stat().st_size for n in (1, 2, 3, 1)]
    assert {item.unit for item in told} == {"bytes"}
    assert (told[0].done, told[-1].done, told[-1].total) == (0, sum(sizes), sum(sizes))
