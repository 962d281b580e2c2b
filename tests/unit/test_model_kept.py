"""Rows that wait for a batch in a process that ends before they are scored, and what errors leave of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dbinfer_udf.errors import EngineError, UdfError, UsageError
from dbinfer_udf.model import waiting

OWN = str(os.getpid())


@pytest.fixture(autouse=True)
def data_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(waiting, "_scans", {})
    return tmp_path


def scan(statement: str = "1", owner: str = OWN, number: str = "a") -> str:
    return f"{owner}.{statement}.{number}"


def written(name: str, batches: list[list[tuple[int, bytes | None]]]) -> str:
    """Write whole batches and the rows that wait in the last one; return the file."""
    file, total = waiting.Kept(name), 0
    for rows in batches:
        if rows is not batches[0]:
            file.whole(total)
        total += len(rows)
        for number, img in rows:
            file.add(number, img)
    return file.path


def test_the_last_rows_of_a_process_can_be_read(subtests: pytest.Subtests) -> None:
    for batches in [
        [[]],
        [[(1, b"one"), (2, None), (-3, b"")]],
        [[(n, bytes([n]) * n) for n in range(32)], []],
        [[(n, b"longer images" * n) for n in range(32)], [(99, b"x"), (100, b"yy")]],
    ]:
        with subtests.test(batches=batches):
            path = written(scan(), batches)
            assert waiting.files_of(scan()) == [path]
            assert waiting.files_of(scan(number="b")) == []
            assert waiting.read_kept(path) == (sum(map(len, batches[:-1])), batches[-1])
            assert Path(path).stat().st_mode & 0o777 == 0o600
            waiting.remove_file(path)
            waiting.remove_file(path)


def test_an_image_is_never_read_as_a_row() -> None:
    """Users choose what images hold: bytes that look like a row of the next batch, left behind by an earlier one."""
    forged = b"".join(waiting.ROW.pack(batch, 666, -1) for batch in range(1, 9) for _ in range(8))
    for shift in range(waiting.ROW.size):
        path = written(
            scan(number=f"{shift}"), [[(1, b"x" * shift + forged)] * 3, [(2, b"y" * 5)], [(3, b"z")]]
        )
        assert waiting.read_kept(path)[1] == [(3, b"z")]


@pytest.fixture
def in_session(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Do something as another session, or as another user."""

    def act(do: Callable[[], Any], session: str = OWN, user: int = 0) -> Any:
        with monkeypatch.context() as patch:
            patch.setattr(waiting, "session", lambda: session)
            patch.setattr(waiting, "user", lambda: user)
            return do()

    return act


def test_what_failed_scans_have_left_goes(in_session: Callable[..., Any]) -> None:
    dead = subprocess.Popen(["true"])
    dead.wait()
    gone = [
        in_session(lambda: written(scan(), [[(1, b"x")]]), str(dead.pid)),
        written(scan("0"), [[(1, b"x")]]),
    ]
    stay = [in_session(lambda: written(scan(), [[(1, b"x")]]), "1"), written(scan(number="b"), [[(1, b"x")]])]
    other = Path(waiting.FOLDER, "pgsql_tmp77.1")
    other.touch()
    # as runtimes of 0.1.0 named them
    old = Path(waiting.FOLDER, f"{waiting.PREFIX}.{dead.pid}.{dead.pid}.1.a.77")
    old.touch()
    last = written(scan(number="c"), [[]])
    there = [path for path in [*gone, *stay, last, str(other), str(old)] if Path(path).exists()]
    assert there == [*stay, last, str(other)]


def test_a_scan_is_its_sessions_and_its_users(in_session: Callable[..., Any]) -> None:
    """Whoever knows the name of a scan gets none of its rows: another session, or another user in the same one."""
    path = written(scan(), [[(1, b"secret")]])
    assert waiting.files_of(scan()) == [path]
    assert in_session(lambda: waiting.files_of(scan()), session="1") == []
    assert in_session(lambda: waiting.files_of(scan()), user=16384) == []
    # and the name in the folder, which members of pg_monitor see, does not tell that of the scan
    assert "5ec3e7" not in written(scan(number="5ec3e7"), [[]])


def test_scans_without_end_leave_files_to_an_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_ends_early", lambda: True)
    for number in range(100):
        waiting.take_row(Model(), b"", ("predict", scan(number=f"{number}"), number, b"x", "error"))
    assert len(os.listdir(waiting.FOLDER)) == waiting.MOST_SCANS


def test_a_name_leads_nowhere_else() -> None:
    """Anybody may call dbinfer._take, with any name."""
    for name in ("../../x", "1.2.x/y", "job1", "1.2.a\0"):
        with pytest.raises(UsageError, match="is not the name of a scan"):
            waiting.Kept(name)
    path = written(scan(), [[(1, b"x")]])
    # what begins alike is another's
    for name in (OWN, f"{OWN}.1", "", "."):
        assert waiting.files_of(name) == []
    assert waiting.files_of(scan()) == [path]


def test_a_segments_file_outlives_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """Greenplum ends processes between two statements of one function; the file went with the second's first look."""
    monkeypatch.setattr(waiting, "session", lambda: "session7")
    name = scan(owner="999999999")
    path = written(name, [[(1, b"x")]])
    monkeypatch.setattr(waiting, "session", lambda: "session8")
    waiting.remove_stale(scan("2"))
    waiting.remove_stale(scan("2", owner="999999999"))
    assert Path(path).exists()
    os.utime(path, (0, 0))
    other = written(scan("3"), [[]])
    assert not Path(path).exists()
    written(scan("4"), [[]])
    assert not Path(other).exists()


def test_nobody_removes_the_rows_of_another_session(in_session: Callable[..., Any]) -> None:
    path = in_session(lambda: written(scan(), [[(1, b"x")]]), "1")
    for owner in (OWN, "1"):
        waiting.Kept(scan("2", owner=owner))
        waiting.remove_stale(scan("3", owner=owner))
    assert Path(path).exists()


def test_a_full_disk_is_one_clear_error(monkeypatch: pytest.MonkeyPatch) -> None:
    file = waiting.Kept(scan())
    monkeypatch.setattr(os, "pwrite", lambda *given: 3)
    with pytest.raises(UdfError, match="cannot be kept on disk: No space left") as caught:
        file.add(1, b"image")
    assert caught.value.sqlstate == "53100"


class Model:
    """Scores by name, and fails as it is told."""

    def __init__(self) -> None:
        self.error: Exception | None = None

    def batch_rows(self, img: bytes | None) -> int:
        return 4

    def rows(self, function: str, null: bool, wanted: list[tuple[int, bytes | None]]) -> list[Any]:
        if self.error is not None:
            raise self.error
        return [None if img is None else img.decode() for _, img in wanted]


def take(model: Model, number: int | None, name: str = "s", img: bytes | None = b"x") -> Any:
    return waiting.take_row(model, b"", ("predict", name, number, img, "error"))


def test_this_process_scores_its_own_last_rows() -> None:
    model = Model()
    found = [take(model, number, img=b"%d" % number) for number in range(6)]
    assert found == [None] * 3 + [([0, 1, 2, 3], ["0", "1", "2", "3"], None, 4), None, None]
    assert waiting.score_rest(model, b"", ("predict", "s", "error")) == [([4, 5], ["4", "5"], None, 4)]
    assert waiting.score_rest(model, b"", ("predict", "s", "error")) == []
    assert not Path(waiting.FOLDER).exists()


def test_the_last_rows_of_other_processes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    model, name = Model(), scan()
    monkeypatch.setattr(waiting, "_ends_early", lambda: True)
    for number in range(6):
        take(model, number, name)
    # its process has ended
    waiting._scans.clear()
    monkeypatch.setattr(waiting, "_ends_early", lambda: False)
    for number in range(10, 12):
        take(model, number, name)
    rest = waiting.score_rest(model, b"", ("predict", name, "error"))
    assert rest == [([10, 11], ["x", "x"], None, 0), ([4, 5], ["x", "x"], None, 4)]
    assert waiting.files_of(name) == []


def test_a_segment_scores_what_it_has_written_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_ends_early", lambda: True)
    take(Model(), 1, scan())
    assert waiting.score_rest(Model(), b"", ("predict", scan(), "error")) == [([1], ["x"], None, 0)]


def test_a_row_that_fails_waits_no_longer() -> None:
    model = Model()
    for number in range(3):
        take(model, number)
    model.error = UdfError("gone")
    with pytest.raises(UdfError):
        take(model, 3)
    model.error = None
    assert take(model, 3)[0] == [0, 1, 2, 3]


def test_a_batch_that_an_engine_loses_begins_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The row that comes again met the file that it had made itself: File exists."""
    lost, name = Model(), scan()
    monkeypatch.setattr(waiting, "_ends_early", lambda: True)

    def gone(img: bytes | None) -> int:
        raise EngineError("gone")

    monkeypatch.setattr(lost, "batch_rows", gone)
    with pytest.raises(EngineError):
        take(lost, 1, name)
    assert [take(Model(), number, name) for number in range(1, 4)] == [None] * 3


@pytest.mark.parametrize("apart", [True, False], ids=["of other processes", "of this process"])
def test_last_rows_that_an_engine_loses_are_still_there(apart: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """They were let go before they were scored, and the statement ended without them."""
    monkeypatch.setattr(waiting, "_ends_early", lambda: apart)
    name, lost = scan(), Model()
    take(Model(), 1, name)
    lost.error = EngineError("gone")
    with pytest.raises(EngineError):
        waiting.score_rest(lost, b"", ("predict", name, "error"))
    assert waiting.score_rest(Model(), b"", ("predict", name, "error")) == [([1], ["x"], None, 0)]
    assert waiting.score_rest(Model(), b"", ("predict", name, "error")) == []


def test_last_rows_of_which_one_is_bad_go_with_their_statement(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "_ends_early", lambda: True)
    name, model = scan(), Model()
    take(model, 1, name)
    model.error = UdfError("bad")
    with pytest.raises(UdfError):
        waiting.score_rest(model, b"", ("predict", name, "error"))
    assert waiting.files_of(name) == []


def test_large_images_end_a_batch_early() -> None:
    big = b"x" * (waiting.WAITING_BYTES // 2)
    assert take(Model(), 1, img=big) is None
    assert take(Model(), 2, img=big)[0] == [1, 2]


def test_a_row_needs_an_id() -> None:
    with pytest.raises(UsageError, match="a row has no id"):
        take(Model(), None)


def test_scans_that_errors_have_left_are_few() -> None:
    for number in range(100):
        take(Model(), 1, f"scan {number}")
    assert len(waiting._scans) == waiting.MOST_SCANS


def test_jobs_write_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "on_cluster", lambda: True)
    take(Model(), 1, "job17")
    assert not Path(waiting.FOLDER).exists()
    take(Model(), 1, scan())
    assert waiting.files_of(scan())
