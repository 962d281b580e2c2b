"""Files of a model on their way into the host cache: a folder that goes meanwhile is no fault of the disk."""

from __future__ import annotations

import hashlib
import os
import shutil
from pathlib import Path

import pytest

from dbinfer_udf.errors import ModelError
from dbinfer_udf.host import housekeeping
from dbinfer_udf.host.cache import Entry, file_state, temporary_file
from dbinfer_udf.host.housekeeping import Writer
from dbinfer_udf.model.device import Setup
from dbinfer_udf.model.model import compile_model


def test_a_folder_that_goes_while_files_are_written_says_to_run_the_statement_again(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"part").hexdigest()
    entry = Entry(str(tmp_path), digest, digest)
    writer = Writer(entry)
    for kind in ("xml", "bin"):
        writer.write(kind, b"part")
    shutil.rmtree(entry.folder)
    with pytest.raises(ModelError, match="no longer in the host cache") as caught:
        writer.finish()
    assert "again" in caught.value.hint
    again = Writer(entry)
    for kind in ("xml", "bin"):
        again.write(kind, b"part")
    again.finish()
    assert entry.good()


def test_files_that_go_before_they_are_compiled_say_to_run_the_statement_again(tmp_path: Path) -> None:
    openvino = pytest.importorskip("openvino")
    with pytest.raises(ModelError, match="the files of the model are no longer in the host cache") as caught:
        compile_model(openvino, Entry(str(tmp_path), "a", "b"), Setup("f32"), 1)
    assert "again" in caught.value.hint


def test_a_folder_where_nothing_can_be_made_names_it_and_the_cure(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(ModelError, match="cannot write to the cache folder") as caught:
        Writer(Entry(str(file), "a", "b"))
    assert "--cache-dir" in caught.value.hint


def test_what_could_not_be_fetched_leaves_nothing(tmp_path: Path) -> None:
    """An empty folder without a mark is nobody's: uninstall left it, as it does what an older release has put there."""
    digest = hashlib.sha256(b"part").hexdigest()
    writer = Writer(Entry(str(tmp_path), digest, digest))
    writer.write("xml", b"part")
    writer.write("bin", b"damaged")
    with pytest.raises(ModelError, match="is damaged"):
        writer.finish()
    assert list(tmp_path.iterdir()) == []


def test_what_was_there_stays_when_its_like_is_damaged(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"part").hexdigest()
    entry = Entry(str(tmp_path), digest, digest)
    first, second = Writer(entry), Writer(entry)
    for kind in ("xml", "bin"):
        first.write(kind, b"part")
    first.finish()
    second.abandon()
    assert entry.good()


def test_two_that_fetch_at_once_leave_the_files_of_the_first(tmp_path: Path) -> None:
    """The first may be trying the model already, in a process whose rules name these files: it cannot open others."""
    digest = hashlib.sha256(b"part").hexdigest()
    entry = Entry(str(tmp_path), digest, digest)
    both = Writer(entry), Writer(entry)
    for writer in both:
        for kind in ("xml", "bin"):
            writer.write(kind, b"part")
    both[0].finish()
    before = [file_state(entry.path(kind)) for kind in ("xml", "bin")]
    both[1].finish()
    assert [file_state(entry.path(kind)) for kind in ("xml", "bin")] == before
    assert entry.good()
    assert not list(Path(entry.folder).glob("*.tmp"))


def test_a_damaged_file_is_replaced(tmp_path: Path) -> None:
    digest = hashlib.sha256(b"part").hexdigest()
    entry = Entry(str(tmp_path), digest, digest)
    for damage in (b"", b"tra"):
        writer = Writer(entry)
        for kind in ("xml", "bin"):
            writer.write(kind, b"part")
        writer.finish()
        assert entry.good()
        Path(entry.path("xml")).write_bytes(damage)
        assert not entry.good()


def test_a_folder_that_another_gives_up_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever was cancelled removed the empty folder in which the next one was just about to make its files."""
    digest = hashlib.sha256(b"part").hexdigest()
    entry, given_up = Entry(str(tmp_path), digest, digest), []

    def removed_before(folder: str) -> tuple[int, str]:
        if not given_up:
            given_up.append(folder)
            os.rmdir(folder)
        return temporary_file(folder)

    monkeypatch.setattr(housekeeping, "temporary_file", removed_before)
    writer = Writer(entry)
    for kind in ("xml", "bin"):
        writer.write(kind, b"part")
    writer.finish()
    assert entry.good()
    assert given_up
