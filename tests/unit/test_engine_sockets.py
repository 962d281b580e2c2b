"""Sockets that are full, gone, somebody else's or an older engine's; engines that race, rest, and run out of room."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models
from engine_models import processes, wait_until

from dbinfer_udf import limits
from dbinfer_udf.engine import address, client, steps, wire
from dbinfer_udf.engine.errors import EngineError
from dbinfer_udf.errors import ModelError

GOOD = tiny_models.file(tiny_models.picture(1, 2, 3))
NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    made = tmp_path / "engine"
    made.mkdir(mode=0o700)
    yield made
    settings = {"engine_dir": str(made)}
    left = [one["pid"] for one in client.status(settings)]
    client.stop(settings)
    wait_until(lambda: not engine_models.alive(left), "the end of the engines")


def opened(folder: Path, number: float = 1, digest: str = "", **settings: str) -> Any:
    return ready(folder, number, digest, **settings)()


def ready(folder: Path, number: float = 1, digest: str = "", **settings: str) -> Callable[[], Any]:
    """Return what opens a model; the files are written before."""
    engine = engine_models.engine(folder, **settings)
    engine.digest = digest or engine.digest
    path = tiny_models.constant(folder.parent, number, f"constant{number:g}")
    spec, entry = engine_models.ticket(path, folder.parent / "cache")
    return lambda: engine.open(spec, entry.folder, 1)


def in_threads(count: int, act: Callable[[], Any]) -> list[Any]:
    """Do something so many times at once; return what came of it."""
    found: list[Any] = []
    gate = threading.Barrier(count)

    def one() -> None:
        gate.wait()
        try:
            found.append(act())
        except Exception as err:
            found.append(err)

    threads = [threading.Thread(target=one) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def test_a_full_queue_is_waited_for(folder: Path) -> None:
    path = str(folder / "full.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        first = steps.open_socket()
        steps.connect(first, path)
        second = steps.open_socket()
        accepted: list[Any] = []
        timer = threading.Timer(0.3, lambda: accepted.append(listener.accept()[0]))
        begun = time.monotonic()
        timer.start()
        steps.connect(second, path)
        assert time.monotonic() - begun > 0.2
        timer.join()
        third = steps.open_socket()
        with pytest.raises(EngineError, match="does not answer"):
            steps.connect(third, path, until=0.0)
        for one in (first, second, third, *accepted):
            one.close()


def test_an_engine_that_has_gone_is_started_again(folder: Path) -> None:
    model = opened(folder)
    old = processes(model._engine)
    assert client.stop(model._engine.settings) == 1
    wait_until(lambda: not engine_models.alive(chain(*old.values())), "the end of the engine")
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"
    assert processes(model._engine)["engine"] != old["engine"]


def test_sockets_that_a_killed_engine_left_are_no_obstacle(folder: Path) -> None:
    model = opened(folder)
    old = processes(model._engine)
    os.kill(old["engine"][0], 9)
    wait_until(lambda: not engine_models.alive(chain(*old.values())), "the end of the engine")
    assert len(list(folder.glob("*.sock"))) == 2
    assert client.status(model._engine.settings) == []
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_socket_of_somebody_else_is_refused(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    for parent in tmp_path.parents[:2]:
        parent.chmod(0o755)
    shared = tmp_path / "shared"
    shared.mkdir()
    os.chown(shared, NOBODY, NOBODY)
    code = (
        f"import os, socket; os.setuid({NOBODY}); s = socket.socket(socket.AF_UNIX); "
        f"s.bind('{shared}/s'); s.listen(); print('ready', flush=True); "
        "c = s.accept()[0]; print(c.recv(100))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        connection = steps.open_socket()
        with pytest.raises(EngineError, match=f"belongs to user id {NOBODY}, process {other.pid}"):
            steps.connect(connection, f"{shared}/s")
        connection.close()
        # it got nothing
        assert other.stdout.readline() == "b''\n"
    with pytest.raises(EngineError, match=f"belongs to user id {NOBODY}"):
        address.find({"engine_dir": str(shared)}, "d" * 64)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_somebody_else_gets_no_answer(folder: Path) -> None:
    model = opened(folder)
    for path in (folder, *folder.parents[:3]):
        path.chmod(0o755)
    for path in folder.glob("*.sock"):
        path.chmod(0o777)
    code = "import os, socket, sys; os.setuid(65534)\nfor p in sys.argv[1:]:\n"
    code += "    s = socket.socket(socket.AF_UNIX); s.connect(p)\n"
    code += "    try: s.sendall(b'x' * 100); print(s.recv(100))\n    except OSError: print(b'')\n"
    paths = [str(path) for path in folder.glob("*.sock")]
    done = subprocess.run([sys.executable, "-c", code, *paths], capture_output=True, text=True, check=True)
    assert done.stdout == "b''\n" * 2
    folder.chmod(0o700)
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


@pytest.mark.parametrize("what", ["open", "link", "file"])
def test_a_folder_that_is_not_ours_alone_is_refused(tmp_path: Path, what: str) -> None:
    folder = tmp_path / "engine"
    if what == "file":
        folder.write_text("")
    elif what == "link":
        folder.symlink_to(tmp_path)
    else:
        folder.mkdir(mode=0o750)
    with pytest.raises(EngineError, match=r"is open to others \(mode 750\)|is not a folder|cannot be made"):
        opened(folder)


def test_an_older_engine_works_beside_a_newer_one_and_is_told_to_go(folder: Path) -> None:
    old, new = opened(folder, 1, "a" * 64), opened(folder, 2, "b" * 64)
    assert old.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"
    assert new.ask("predict", GOOD, None) == "{2.0,2.0,2.0}"
    settings = new._engine.settings
    assert {one["digest"] for one in client.status(settings)} == {"a" * 12, "b" * 12}
    assert client.stop(settings, keep="b" * 64) == 1
    wait_until(lambda: len(client.status(settings)) == 1, "the end of the old engine")
    assert client.status(settings)[0]["digest"] == "b" * 12
    # a session that still has the old runtime starts its engine again
    assert old.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_of_twenty_that_start_at_once_one_remains(folder: Path) -> None:
    start = ready(folder)
    found = in_threads(20, lambda: start().ask("predict", GOOD, None))
    assert found == ["{1.0,1.0,1.0}"] * 20
    assert len(client.status({"engine_dir": str(folder)})) == 1
    log = (folder / "engine.log").read_text()
    assert (log.count("starts with"), log.count("is loaded")) == (1, 1)


def test_two_hundred_clients_at_once(folder: Path) -> None:
    model = opened(folder)
    found = in_threads(200, lambda: [model.ask("predict", GOOD, None) for _ in range(5)])
    assert found == [["{1.0,1.0,1.0}"] * 5] * 200


def test_a_full_disk_costs_the_log_and_nothing_else(folder: Path) -> None:
    assert opened(folder, engine_log="/dev/full").ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_an_engine_that_rests_ends_and_comes_back(folder: Path) -> None:
    model = opened(folder, engine_idle_seconds="1")
    pids = processes(model._engine)["engine"]
    wait_until(lambda: not engine_models.alive(pids), "the end of the engine")
    assert "Nobody has asked for 1 seconds." in (folder / "engine.log").read_text()
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_the_model_that_was_not_used_for_longest_goes(folder: Path) -> None:
    first = opened(folder, 1, engine_memory_mb="1")
    second = opened(folder, 2, engine_memory_mb="1")
    assert "Model constant1@1 goes" in (folder / "engine.log").read_text()
    assert [one["model"] for one in client.status(first._engine.settings)[0]["models"]] == ["constant2"]
    assert second.ask("predict", GOOD, None) == "{2.0,2.0,2.0}"
    # it comes back when it is asked for
    assert first.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_a_model_that_was_opened_for_nothing_goes_and_one_in_use_stays(folder: Path) -> None:
    idle, used = opened(folder, 1), opened(folder, 2)
    assert used.ask("predict", GOOD, None) == "{2.0,2.0,2.0}"
    idle.release()
    used.release()
    left = lambda: [one["model"] for one in client.status(used._engine.settings)[0]["models"]]  # noqa: E731
    wait_until(lambda: left() == ["constant2"], "the idle model's end")


def test_a_model_that_cannot_be_loaded_says_why(folder: Path) -> None:
    engine = engine_models.engine(folder)
    spec, entry = engine_models.ticket(tiny_models.loop(folder.parent, 2 * 10**9), folder.parent / "cache")
    spec["settings"] = {"max_inference_seconds": "1"}
    with pytest.raises(ModelError, match="the model was not run: one image took more than 1 s") as caught:
        engine.open(spec, entry.folder, 1)
    assert "--max-inference-seconds" in caught.value.hint
    assert client.status(engine.settings)[0]["models"] == []
    # its mistake is nobody else's
    assert opened(folder).ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_nonsense_ends_nothing(folder: Path) -> None:
    model = opened(folder)
    wait_until(lambda: len(processes(model._engine)["worker"]) == limits.cores(), "all workers")
    old = processes(model._engine)
    place = address.find(model._engine.settings, model._engine.digest)
    for path in (place.control, model._path):
        for data in (
            b"",
            b"x",
            b"\xff" * 100,
            wire.frame({"op": "none"}),
            wire.HEAD.pack(b"DBE1", 99, 0, 0, 0, b"", 0),
        ):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(data)
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"
    assert processes(model._engine) == old


def test_sessions_take_turns(folder: Path) -> None:
    """A row of another session waits for at most one row of each that was there before."""
    engine = engine_models.engine(folder)
    spec, entry = engine_models.ticket(tiny_models.loop(folder.parent, 2_000), folder.parent / "cache")
    model, others, over = engine.open(spec, entry.folder, 1), 8, threading.Event()
    done: list[int] = []

    def saturate() -> None:
        while not over.is_set():
            model.ask("predict", GOOD, None)
            done.append(1)

    sessions = [threading.Thread(target=saturate) for _ in range(others)]
    for session in sessions:
        session.start()
    try:
        wait_until(lambda: len(done) > 2 * others, "rows of all sessions")
        overtaken = []
        for _ in range(10):
            before = len(done)
            model.ask("predict", GOOD, None)
            overtaken.append(len(done) - before)
    finally:
        over.set()
        for session in sessions:
            session.join()
    # each of the others once, and those that workers had in hand or took up meanwhile
    assert max(overtaken) <= others + 2 * limits.cores()
