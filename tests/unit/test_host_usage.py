"""The file in which processes count their rows: records are taken, left and taken again, and nothing is lost."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbinfer_udf.host import usage

ROLE, VERSION = 4_000_000_000, 7
PLACES = len(usage.BOUNDS) + 1 + len(usage.NAMES)
ADD = """
import os, sys
from dbinfer_udf.host import usage
os.chdir(sys.argv[1])
meter = usage.Meter({}, (4_000_000_000, 7))
for _ in range(int(sys.argv[2])):
    meter.add(1, 0.5)
if "wait" in sys.argv:
    print("counted", flush=True)
    sys.stdin.read()
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def other(folder: Path, rows: int, *wait: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", ADD, str(folder), str(rows), *wait]
    return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


def read(role: int | None = None) -> list[dict[str, Any]]:
    # of another process: this one's open file is not looked for again
    found: list[dict[str, Any]] = json.loads(usage.Usage({}).read(role))
    return found


def total() -> int:
    return sum(each["rows"] for each in read())


def records() -> int:
    return Path(usage.usage_path()).stat().st_size // usage.SIZE - 1


def test_processes_add_up_and_share_no_record_at_once(folder: Path) -> None:
    crowd = [other(folder, 500) for _ in range(8)]
    for one in crowd:
        one.communicate()
    assert total() == 4000
    assert records() <= 8
    assert read()[0]["seconds"] == 2000


def test_a_killed_process_leaves_its_record_to_the_next(folder: Path) -> None:
    for _ in range(3):
        with other(folder, 5, "wait") as one:
            assert one.stdout is not None
            assert one.stdout.readline() == "counted\n"
            one.kill()
    assert (total(), records()) == (15, 1)


def test_a_record_in_use_is_left_alone(folder: Path) -> None:
    one = other(folder, 5, "wait")
    assert one.stdout is not None
    one.stdout.readline()
    usage.Meter({}, (ROLE, VERSION)).add(1, 0.1)
    one.communicate()
    assert (total(), records()) == (6, 2)


def test_roles_are_told_apart(folder: Path) -> None:
    gd: dict[str, Any] = {}
    for role, rows in ((1, 3), (2, 4)):
        usage.Meter(gd, (role, VERSION)).add(rows, 1.0)
    assert {each["role"]: each["rows"] for each in read()} == {1: 3, 2: 4}
    assert [each["rows"] for each in read(2)] == [4]
    assert read(3) == []


@pytest.mark.parametrize(
    "left",
    [b"", b"\0" * usage.SIZE, b"\0" * (usage.SIZE + 5), b"half a record"],
    ids=["nothing", "one", "one and a bit", "half"],
)
def test_what_a_killed_writer_or_a_full_disk_has_left_is_written_over(folder: Path, left: bytes) -> None:
    usage.Meter({}, (1, VERSION)).add(1, 1.0)
    with open(usage.usage_path(), "ab") as file:
        file.write(left)
    gd: dict[str, Any] = {}
    usage.Meter(gd, (ROLE, VERSION)).add(2, 1.0)
    usage.Meter(gd, (ROLE, VERSION)).add(2, 1.0)
    assert (total(), len(read())) == (5, 2)


@pytest.mark.parametrize("rows", [-1, 1 << 62, (1 << 63) - 1])
@pytest.mark.parametrize("number", [float("nan"), float("inf"), -1.0, 1e300])
def test_a_record_that_no_process_can_have_written(folder: Path, rows: int, number: float) -> None:
    """NaN made the view dbinfer.usage an error for everybody, and a count at its end the next row of its role."""
    usage.Meter({}, (ROLE, VERSION)).add(1, 1.0)
    record = usage.RECORD.pack(ROLE, VERSION, rows, number, number, *[rows] * PLACES)
    with open(usage.usage_path(), "r+b") as file:
        file.seek(usage.SIZE)
        file.write(record * 3)
    usage.Meter({}, (ROLE, VERSION)).add(2, 1.0)
    (found,) = json.loads(usage.Usage({}).read(None), parse_constant=pytest.fail)
    assert (found["rows"], found["seconds"]) == (2, 1.0)
    assert (sum(found["times"].values()), sum(found["errors"].values())) == (2, 0)


def test_a_file_of_an_earlier_release_still_counts(folder: Path) -> None:
    """It ends in a number of its own, and outside of a cluster must not be taken for another segment's."""
    (folder / usage.BEFORE).mkdir()
    head = (b"dbinfer usage 1\n").ljust(usage.OLD.size, b"\x17")
    record = usage.OLD.pack(ROLE, VERSION, 40, 8.0, 1.7e9)
    Path(usage.usage_path(usage.BEFORE)).write_bytes(head + record + record[:9])
    assert total() == 40
    usage.Meter({}, (ROLE, VERSION)).add(2, 1.0)
    assert sorted((each["rows"], sum(each["times"].values())) for each in read()) == [(2, 2), (40, 0)]
    assert len({each["source"] for each in read()}) == 2
    # what a session of that release writes now counts, too
    with open(usage.usage_path(usage.BEFORE), "r+b") as file:
        file.seek(usage.OLD.size)
        file.write(usage.OLD.pack(ROLE, VERSION, 41, 8.0, 1.7e9))
    assert total() == 43
    usage.Usage({}).leave("")
    assert os.listdir(folder) == []


@pytest.mark.parametrize(
    ("rows", "seconds", "place"),
    [
        (1, 0.0, "0.0001"),
        (1, 0.0001, "0.0001"),
        (1, 0.00011, "0.0003"),
        (4, 0.04, "0.01"),
        (1, 9.0, "10.0"),
        (2, 21.0, "Infinity"),
    ],
)
def test_each_row_has_its_place_by_the_time_it_took(
    folder: Path, rows: int, seconds: float, place: str
) -> None:
    usage.Meter({}, (ROLE, VERSION)).add(rows, seconds)
    (found,) = read()
    assert {name: count for name, count in found["times"].items() if count} == {place: rows}


def test_errors_have_their_kinds(folder: Path) -> None:
    gd: dict[str, Any] = {}
    for sqlstate, count in (("22P03", 3), ("57014", 1), ("XX000", 2), ("", 5)):
        for _ in range(count):
            usage.Meter(gd, (ROLE, VERSION)).add(1, 0.1, sqlstate)
    (found,) = read()
    assert {name: count for name, count in found["errors"].items() if count} == {
        "image": 3,
        "cancel": 1,
        "other": 2,
    }
    assert found["rows"] == 11


def test_nothing_fails_where_nothing_can_be_written(folder: Path) -> None:
    (folder / usage.FOLDER).write_text("")
    meter = usage.Meter({}, (1, VERSION))
    meter.add(1, 1.0)
    meter.add(1, 1.0)
    assert read() == []


def test_a_failing_write_fails_no_row(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    meter = usage.Meter({}, (1, VERSION))

    def full(*_args: object) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    meter.add(1, 1.0)


def test_uninstall_removes_the_file_and_those_of_dropped_databases(folder: Path) -> None:
    gd: dict[str, Any] = {}
    usage.Meter(gd, (1, VERSION)).add(1, 1.0)
    (folder / usage.FOLDER / "77").write_text("")
    (folder / usage.FOLDER / "78").write_text("")
    usage.Usage(gd).leave("5,78")
    assert os.listdir(folder / usage.FOLDER) == ["78"]
    # an open session makes a new file, and takes no place in it for its own
    usage.Meter(gd, (1, VERSION)).add(1, 1.0)
    assert total() == 1


class FakeTicket(SimpleNamespace):
    """Answers each row as a ticket would: a batch is whole at its third row, and gives nothing before."""

    def run(self, plpy: Any, task: str, img: Any, on_error: Any, k: Any, row: Any = None) -> Any:
        if img == b"bad":
            self.failed = "22P03"
            raise ValueError("torn")
        self.remembered += task == "problem"
        self.rows += 1
        return None if task == "batch" and self.rows % 3 else "the result"


@pytest.fixture
def counted() -> usage.Counted:
    ticket = FakeTicket(version_id=VERSION, spec="", transaction=1, rows=0, remembered=0, failed="")
    gd: dict[str, Any] = {"dbinfer.tickets": {"t": ticket}}
    usage.Usage(gd).count("t", ROLE)
    found: usage.Counted = gd["dbinfer.tickets"]["t"]
    return found


def test_images_count_and_nothing_else(counted: usage.Counted) -> None:
    for task, img in (
        ("predict", b"x"),
        ("predict", None),
        ("warm", b"x"),
        ("embed", b"x"),
        ("problem", b"x"),
    ):
        counted.run(None, task, img, "null", 0)
    with pytest.raises(ValueError, match="torn"):
        counted.run(None, "predict", b"bad", "error", 0)
    counted.run(None, "predict", b"x", "error", 0)
    assert total() == 4
    assert read()[0]["errors"]["image"] == 1


def test_rows_of_a_batch_count_when_it_is_whole(counted: usage.Counted) -> None:
    for number in range(8):
        row = ("classify", "scan", number, None if number == 1 else b"x", "null")
        counted.run(None, "batch", b"", "null", row)
    assert total() == 5


def test_image_info_uses_no_model() -> None:
    gd: dict[str, Any] = {"dbinfer.tickets": {"t": SimpleNamespace(version_id=0)}}
    usage.Usage(gd).count("t", ROLE)
    assert not isinstance(gd["dbinfer.tickets"]["t"], usage.Counted)


def test_a_copy_of_another_segments_folder_begins_at_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """gpexpand copies the coordinator's: with the same number the counts of both were taken for one, the higher."""
    monkeypatch.setattr(usage.process, "content_id", lambda: -1)
    usage.Meter({}, (ROLE, VERSION)).add(50, 1.0)
    (coordinator,) = read()
    monkeypatch.setattr(usage.process, "content_id", lambda: 2)
    first, second = {}, {}
    usage.Meter(first, (ROLE, VERSION)).add(3, 1.0)
    usage.Meter(second, (ROLE, VERSION)).add(4, 1.0)
    (found,) = read()
    assert found["rows"] == 4 + 3
    assert found["source"] != coordinator["source"]


def test_a_copy_of_the_same_segments_folder_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage.process, "content_id", lambda: 0)
    usage.Meter({}, (ROLE, VERSION)).add(50, 1.0)
    place = Path(usage.usage_path())
    copy = place.read_bytes()
    place.unlink()
    place.write_bytes(copy)
    usage.Meter({}, (ROLE, VERSION)).add(3, 1.0)
    assert [found["rows"] for found in read()] == [53]
