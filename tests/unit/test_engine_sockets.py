"""Sockets that are full, gone or somebody else's, and nonsense that is sent to them."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import engine_models
import pytest
from common_folders import common_folder
from engine_models import processes, wait_until
from engine_places import GOOD, engine_folder, opened

from dbinfer_udf.engine import address, client
from dbinfer_udf.errors import EngineError
from dbinfer_udf.host import limits, protocol

NOBODY = 65534


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with engine_folder(tmp_path) as made:
        yield made


@pytest.fixture
def shared() -> Iterator[Path]:
    """A folder that other users may enter."""
    with common_folder("engine") as made:
        yield made


def test_a_full_queue_is_waited_for(folder: Path) -> None:
    path = str(folder / "full.sock")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(path)
        listener.listen(0)
        first = protocol.open_socket()
        protocol.connect(first, path)
        second = protocol.open_socket()
        accepted: list[Any] = []
        timer = threading.Timer(0.3, lambda: accepted.append(listener.accept()[0]))
        begun = time.monotonic()
        timer.start()
        protocol.connect(second, path)
        assert time.monotonic() - begun > 0.2
        timer.join()
        third = protocol.open_socket()
        with pytest.raises(EngineError, match="does not answer"):
            protocol.connect(third, path, until=0.0)
        for one in (first, second, third, *accepted):
            one.close()


def test_an_engine_that_has_gone_is_started_again(folder: Path) -> None:
    model = opened(folder)
    old = processes(model._engine)
    assert client.stop(model._engine.settings) == 1
    wait_until(lambda: not engine_models.alive(chain(*old.values())), "the end of the engine")
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"
    assert processes(model._engine)["engine"] != old["engine"]


@pytest.mark.wide
def test_sockets_that_a_killed_engine_left_are_no_obstacle(folder: Path) -> None:
    model = opened(folder)
    old = processes(model._engine)
    os.kill(old["engine"][0], 9)
    wait_until(lambda: not engine_models.alive(chain(*old.values())), "the end of the engine")
    assert len(list(folder.glob("*.sock"))) == 2
    assert client.status(model._engine.settings) == []
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_a_socket_of_somebody_else_is_refused(shared: Path) -> None:
    os.chown(shared, NOBODY, NOBODY)
    code = (
        f"import os, socket; os.setuid({NOBODY}); s = socket.socket(socket.AF_UNIX); "
        f"s.bind('{shared}/s'); s.listen(); print('ready', flush=True); "
        "c = s.accept()[0]; print(c.recv(100))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        connection = protocol.open_socket()
        with pytest.raises(EngineError, match=f"belongs to user id {NOBODY}, process {other.pid}"):
            protocol.connect(connection, f"{shared}/s")
        connection.close()
        # it got nothing
        assert other.stdout.readline() == "b''\n"
    with pytest.raises(EngineError, match=f"belongs to user id {NOBODY}"):
        address.find({"engine_dir": str(shared)}, "d" * 64)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be somebody else")
def test_somebody_else_gets_no_answer(shared: Path) -> None:
    code = "import os, socket, sys; os.setuid(65534)\nfor p in sys.argv[1:]:\n"
    code += "    s = socket.socket(socket.AF_UNIX); s.connect(p)\n"
    code += "    try: s.sendall(b'x' * 100); print(s.recv(100))\n    except OSError: print(b'')\n"
    with engine_folder(shared) as folder:
        model = opened(folder)
        folder.chmod(0o755)
        for path in folder.glob("*.sock"):
            path.chmod(0o777)
        paths = [str(path) for path in folder.glob("*.sock")]
        command = [sys.executable, "-c", code, *paths]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
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
            protocol.frame({"op": "none"}),
            protocol.HEAD.pack(b"DBE1", 99, 0, 0, 0, b"", 0),
        ):
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path)
                connection.sendall(data)
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"
    assert processes(model._engine) == old
