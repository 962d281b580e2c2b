"""Files of a model on their way into the host cache: a folder that goes meanwhile is no fault of the disk."""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

import pytest

from dbinfer_udf.errors import ModelError
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.host.housekeeping import Writer


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


def test_a_folder_where_nothing_can_be_made_names_it_and_the_cure(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"")
    with pytest.raises(ModelError, match="cannot write to the cache folder") as caught:
        Writer(Entry(str(file), "a", "b"))
    assert "--cache-dir" in caught.value.hint
