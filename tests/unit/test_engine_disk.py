"""Full disks beneath the engine: its folder, shared memory and the temporary folder, with large images on their way."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import engine_models
import pytest
import tiny_models
from engine_elsewhere import scored
from engine_places import GOOD, opened, ready

from dbinfer_udf.engine import client
from dbinfer_udf.errors import EngineError

FULL = "No space left on device"
# 27 MB, as large as they come from cameras
LARGE = tiny_models.file(tiny_models.picture(9, 9, 9, size=(3000, 3000)), "BMP")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of 64 kB with room for twenty files."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=64k,nr_inodes=20,mode=0700", "tmpfs", str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"no small disk can be mounted here: {done.stderr.strip()}")
    yield folder
    settings = {"engine_dir": str(folder)}
    left = [one["pid"] for one in client.status(settings)]
    client.stop(settings)
    engine_models.wait_until(lambda: not engine_models.alive(left), "the end of the engines")
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(disk: Path) -> list[Path]:
    """Leave room for no byte and no file; return what was written."""
    made = []
    with contextlib.suppress(OSError):
        for number in range(100):
            made.append(disk / f"filler{number}")
            made[-1].write_bytes(bytes(100_000 if number == 0 else 0))
    with contextlib.suppress(OSError):
        for number in range(100):
            made.append(disk / f"more{number}")
            made[-1].touch()
    return [path for path in made if path.exists()]


def memory_files(pid: int) -> int:
    """Count what a supervisor keeps of models; connections come and go."""
    targets = []
    for path in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            targets.append(os.readlink(path))
    return sum(target.startswith("/memfd:") for target in targets)


def make_room(made: list[Path]) -> None:
    for path in made:
        path.unlink()


@pytest.mark.wide
def test_an_engine_that_has_no_room_to_start_says_so_and_starts_later(disk: Path) -> None:
    made = fill(disk)
    with pytest.raises(EngineError, match=FULL):
        opened(disk)
    make_room(made)
    assert opened(disk).ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_a_full_disk_costs_new_models_alone(disk: Path) -> None:
    first, second = opened(disk, 1), ready(disk, 2)
    (pid,) = engine_models.processes(first._engine)["engine"]
    made = fill(disk)
    before = memory_files(pid)
    # the image goes through the socket, and no disk sees it
    assert first.ask("predict", LARGE, None) == "{1.0,1.0,1.0}"
    for _ in range(3):
        with pytest.raises(EngineError, match=f"cannot load the model: {FULL}"):
            second()
    assert memory_files(pid) == before
    assert first.ask("predict", LARGE, None) == "{1.0,1.0,1.0}"
    make_room(made)
    assert second().ask("predict", GOOD, None) == "{2.0,2.0,2.0}"


@pytest.mark.wide
def test_no_row_needs_shared_memory_or_a_temporary_folder(tmp_path: Path) -> None:
    """An engine that finds both full compiles, tries and scores, in one thread and in several."""
    own = ["unshare", "--mount", "bash", "-e", "-c"]
    if subprocess.run([*own, "true"], capture_output=True, check=False).returncode:
        pytest.skip("no folder can be mounted for a process alone here")
    # what the engine reads must not lie beneath what is mounted
    needed = [Path(sys.prefix), Path(__file__), tmp_path]
    place = next(p for p in ("/var/tmp", "/mnt", "/srv") if not any(n.is_relative_to(p) for n in needed))
    full = f"for place in /dev/shm {place}; do mount -t tmpfs -o size=4k,nr_inodes=2,mode=0777 tmpfs $place; "
    full += "head -c 9000 /dev/zero 2>&- > $place/x || true; done; "
    tries = "if : 2>&- > /dev/shm/y; then exit 9; fi; "
    answers, _ = scored(tmp_path, LARGE, [], [*own, full + tries + 'exec "$@"', "-"], TMPDIR=place)
    assert answers[0] == answers[1]


@pytest.mark.wide
def test_models_that_come_and_go_leave_no_descriptor(tmp_path: Path) -> None:
    (tmp_path / "engine").mkdir(mode=0o700)
    first, second = ready(tmp_path / "engine", 1), ready(tmp_path / "engine", 2)
    model = first()
    (pid,) = engine_models.processes(model._engine)["engine"]
    before = memory_files(pid)
    for _ in range(3):
        second().release()
        engine_models.wait_until(lambda: memory_files(pid) == before, "the end of a model's descriptors")
    client.stop(model._engine.settings)
