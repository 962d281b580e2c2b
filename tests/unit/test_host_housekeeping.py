"""The host cache's limit: what was not used for longest goes, and nothing that somebody may be about to use."""

from __future__ import annotations

import hashlib
import json
import os
import time
from pathlib import Path

import pytest

from dbinfer_udf.host import cache, housekeeping, process
from dbinfer_udf.host.cache import Entry, entry_name
from dbinfer_udf.session.resolve import Admission

MB = 1 << 20
LIMIT = {"cache_limit_mb": "3"}


def model(cache: Path, name: str, idle: float, size: int = MB) -> Entry:
    """Make a model in the cache that was used so many seconds ago."""
    entry = Entry(str(cache), name, "")
    os.makedirs(os.path.join(entry.folder, "blobs"))
    for part in ("model.bin", "blobs/1.blob"):
        Path(entry.folder, part).write_bytes(bytes(size // 2))
    os.utime(entry.folder, (time.time() - idle,) * 2)
    return entry


def left(cache: Path, *entries: Entry) -> list[bool]:
    assert not list(cache.glob("*.tmp"))
    return [os.path.exists(entry.folder) for entry in entries]


def test_what_was_not_used_for_longest_goes_until_the_rest_fits(tmp_path: Path) -> None:
    models = [model(tmp_path, str(hours), hours * 3600) for hours in (3, 5, 1, 4, 2)]
    new = model(tmp_path, "new", 0)
    housekeeping.make_room(new, LIMIT)
    assert left(tmp_path, *models, new) == [False, False, True, False, True, True]
    housekeeping.make_room(new, LIMIT)
    assert left(tmp_path, *models, new) == [False, False, True, False, True, True]


def test_within_the_limit_everything_stays(tmp_path: Path) -> None:
    models = [model(tmp_path, str(hours), hours * 3600) for hours in (1, 2, 3)]
    housekeeping.make_room(models[0], LIMIT)
    housekeeping.make_room(models[0], {})
    assert left(tmp_path, *models) == [True] * 3


def test_neither_the_new_model_nor_one_in_use_goes(tmp_path: Path) -> None:
    new = model(tmp_path, "new", 9000, 9 * MB)
    used = model(tmp_path, "used", housekeeping.BUSY_SECONDS / 2)
    future = model(tmp_path, "future", -9000)
    housekeeping.make_room(new, LIMIT)
    assert left(tmp_path, new, used, future) == [True] * 3


def test_a_model_that_was_used_before_the_clock_was_set_back_goes(tmp_path: Path) -> None:
    """Else nobody would remove it for years."""
    ahead, new = model(tmp_path, "ahead", -10 * 365 * 86400, 9 * MB), model(tmp_path, "new", 0)
    housekeeping.make_room(new, LIMIT)
    assert left(tmp_path, ahead, new) == [False, True]
    ahead = model(tmp_path, "ahead", -10 * 365 * 86400)
    assert housekeeping.prune_cache(str(tmp_path), {entry_name("new")})
    assert left(tmp_path, ahead, new) == [False, True]


def test_a_model_that_somebody_begins_to_use_stays(tmp_path: Path) -> None:
    entry = model(tmp_path, "a", 9000)
    (seen,) = housekeeping.cached_models(str(tmp_path))
    cache.mark_used(entry.folder)
    assert housekeeping._remove_model(seen) is False
    assert left(tmp_path, entry) == [True]


def test_what_is_no_model_stays(tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "mine-2.tmp").write_text("mine")
    (tmp_path / ("a" * 32)).write_text("a file")
    (tmp_path / ("b" * 32)).symlink_to(tmp_path / "notes")
    assert housekeeping.cached_models(str(tmp_path)) == []
    assert housekeeping.prune_cache(str(tmp_path), []) == []
    assert len(list(tmp_path.iterdir())) == 4


def test_prune_removes_what_is_not_named_and_idle(tmp_path: Path) -> None:
    named, idle, busy = (
        model(tmp_path, "n", 9000),
        model(tmp_path, "i", 9000),
        model(tmp_path, "b", 60),
    )
    (tmp_path / "999999999-gone.tmp").mkdir()  # left by a backend that was killed while it removed a model
    removed = housekeeping.prune_cache(str(tmp_path), {entry_name("n")})
    assert [(one.path, one.size) for one in removed] == [(idle.folder, MB)]
    assert left(tmp_path, named, idle, busy) == [True, False, True]


def test_a_cache_that_is_gone_or_closed_raises_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = model(tmp_path / "gone", "a", 9000, 9 * MB)
    seen = housekeeping.cached_models(str(tmp_path / "gone"))
    os.rename(tmp_path / "gone", tmp_path / "moved")
    housekeeping.make_room(entry, LIMIT)
    cache.mark_used(entry.folder)
    assert housekeeping._remove_model(seen[0]) is False

    def closed(*paths: object) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "rename", closed)
    new = model(tmp_path / "moved", "new", 0)
    housekeeping.make_room(new, LIMIT)
    assert left(tmp_path / "moved", new) == [True]


def test_usage_survives_files_that_go_meanwhile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model(tmp_path, "a", 0)
    walked = [(str(tmp_path), [], ["never there"])]
    monkeypatch.setattr(os, "walk", lambda folder: walked)
    assert housekeeping.disk_usage(str(tmp_path))[0] == 0


def test_a_session_marks_a_model_once_a_minute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    marked: list[str] = []
    clock = [0.0]
    monkeypatch.setattr("dbinfer_udf.session.resolve.monotonic", lambda: clock[0])
    monkeypatch.setattr(cache, "mark_used", marked.append)
    tmp_path.chmod(0o700)
    admission = Admission()
    for now, count in ((0.0, 1), (1.0, 1), (cache.MARK_SECONDS, 2)):
        clock[0] = now
        admission._entry("x", "y", {"cache_dir": str(tmp_path)})
        assert len(marked) == count


OURS, THEIRS = (7, 100), (7, 200)


def uses(monkeypatch: pytest.MonkeyPatch, database: tuple[int, int], *entries: Entry) -> None:
    """Be a backend of that database (cluster and oid), and use the models."""
    monkeypatch.setattr(process, "database", lambda: database)
    for entry in entries:
        cache.mark_used(entry.folder)


def test_what_no_other_database_has_used_goes_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)
    ours, both, theirs, dropped, other_cluster, old = (
        model(tmp_path, name, 0) for name in ("ours", "both", "theirs", "dropped", "cluster", "old")
    )
    uses(monkeypatch, (7, 300), dropped)
    uses(monkeypatch, (8, 300), other_cluster)
    uses(monkeypatch, THEIRS, theirs, both)
    uses(monkeypatch, OURS, ours, both, other_cluster)
    removed = housekeeping.leave_cache(str(tmp_path), "100,200")
    assert {one.path for one in removed} == {ours.folder, dropped.folder}
    assert left(tmp_path, both, theirs, other_cluster, old) == [True] * 4
    uses(monkeypatch, THEIRS)
    assert {one.path for one in housekeeping.leave_cache(str(tmp_path), "200")} == {
        both.folder,
        theirs.folder,
    }


def test_prune_takes_nothing_that_another_database_has_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = model(tmp_path, "a", 0)
    for database, removed in ((OURS, 0), (THEIRS, 1)):
        uses(monkeypatch, OURS, *([entry] if database == OURS else []))
        uses(monkeypatch, THEIRS, *([entry] if database == OURS else []))
        os.utime(entry.folder, (time.time() - 9000,) * 2)
        uses(monkeypatch, database)
        assert len(housekeeping.prune_cache(str(tmp_path), [], "100,200")) == removed


def test_the_default_folder_goes_when_it_is_empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process, "database", lambda: OURS)
    for name in ("dbinfer_cache", "elsewhere"):
        folder = tmp_path / name
        assert housekeeping.leave_cache(str(folder), "100") == []
        folder.mkdir(mode=0o700)
        cache.mark_used(model(folder, "a", 0).folder)
        assert len(housekeeping.leave_cache(str(folder), "100")) == 1
    assert [(tmp_path / name).exists() for name in ("dbinfer_cache", "elsewhere")] == [False, True]


def test_a_model_that_was_removed_and_written_again_is_marked(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uninstall of another database takes the folder, and the mark with it, between need and feed."""
    monkeypatch.setattr(process, "database", lambda: OURS)
    tmp_path.chmod(0o700)
    data = {"xml": b"<net/>", "bin": b"weights"}
    digests = [hashlib.sha256(data[kind]).hexdigest() for kind in ("xml", "bin")]
    admission = Admission()
    assert admission.need(digests[0], digests[1], json.dumps({"cache_dir": str(tmp_path)}))
    for kind, part in data.items():
        admission.feed(kind, part)
    admission.finish()
    assert cache.marks_of(admission.entry(*digests).folder) == ["used-by-7-100"]


def test_a_process_that_is_no_servers_leaves_no_mark(tmp_path: Path) -> None:
    entry = model(tmp_path, "a", 0)
    cache.mark_used(entry.folder)
    assert cache.marks_of(entry.folder) == []
