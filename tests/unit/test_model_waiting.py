"""A model that a process waits for or compiles stays in the host cache, however long that takes."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbinfer_udf.errors import ModelError
from dbinfer_udf.host import cache, housekeeping
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.model import model as compiling
from dbinfer_udf.model import tried
from dbinfer_udf.model.trial import Result
from dbinfer_udf.session.resolve import Admission

BUSY = 2.0  # long enough for a busy machine, on which a thread may wait its turn for a second


@pytest.fixture
def crowded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Entry, Entry]:
    """A model and another one in a cache that has room for neither, and in which ten minutes are two seconds."""
    monkeypatch.setattr(housekeeping, "BUSY_SECONDS", BUSY)
    monkeypatch.setattr(cache, "MARK_SECONDS", BUSY / 10)
    waited, other = Entry(str(tmp_path), "a", ""), Entry(str(tmp_path), "b", "")
    for entry in (waited, other):
        os.makedirs(entry.folder)
        Path(entry.path("xml")).write_bytes(b'<?xml version="1.0"?><net name="none"/>')
    return waited, other


def evicting(other: Entry, seconds: float) -> None:
    """Let other sessions bring models into the cache, for a time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        housekeeping.make_room(other, {"cache_limit_mb": "0"})
        time.sleep(BUSY / 20)


@pytest.mark.wide
def test_it_stays_while_it_is_tried(crowded: tuple[Entry, Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    waited, other = crowded

    def long_trial(*given: Any, **more: Any) -> Result:
        stop: Callable[[], bool] = more["stop"]
        evictor = threading.Thread(target=evicting, args=(other, 1.5 * BUSY))
        evictor.start()
        while evictor.is_alive():
            assert not stop()
            time.sleep(BUSY / 50)
        return Result(10.0, 1.5, 1 << 20)

    monkeypatch.setattr(tried, "run_trial", long_trial)
    tried.require_tried(waited, "f32", {}, "1")
    assert os.path.exists(waited.path("xml"))


@pytest.mark.wide
def test_it_stays_while_another_process_tries_it(
    crowded: tuple[Entry, Entry], monkeypatch: pytest.MonkeyPatch
) -> None:
    waited, other = crowded
    monkeypatch.setattr(tried, "run_trial", lambda *given, **more: Result(10.0, 1.5, 1 << 20))
    with tried._one_at_a_time(waited):
        waits = threading.Thread(target=tried.require_tried, args=(waited, "f32", {}, "1"))
        waits.start()
        evicting(other, 1.5 * BUSY)
        assert os.path.exists(waited.path("xml"))
    waits.join()


@pytest.mark.wide
def test_it_stays_while_it_is_compiled(crowded: tuple[Entry, Entry], monkeypatch: pytest.MonkeyPatch) -> None:
    waited, other = crowded

    def compiled(config: object) -> str:
        evicting(other, 1.5 * BUSY)
        return "compiled"

    blobs = os.path.join(waited.folder, "blobs", "1")
    assert compiling._compile_new(compiled, {}, blobs) == "compiled"
    assert os.path.exists(waited.path("xml"))
    evicting(other, 1.5 * BUSY)
    assert not os.path.exists(waited.path("xml"))


def test_what_went_before_the_first_row_is_said(tmp_path: Path) -> None:
    """A sort before the first row may take longer than any mark."""
    tmp_path.chmod(0o700)
    admission = Admission()
    admission._entry("x", "y", {"cache_dir": str(tmp_path)})
    with pytest.raises(
        ModelError, match='the files of model "digits" are no longer in the host cache'
    ) as caught:
        admission.present({"model": "digits", "xml_digest": "x", "bin_digest": "y"})
    assert caught.value.hint.startswith("Run the statement again")
