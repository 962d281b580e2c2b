"""What the engine's processes may suffer in the middle of a row: that row's error, the next row right, nothing left."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models
from engine_models import processes, wait_until
from variants import wide

from dbinfer_udf.engine import address, client
from dbinfer_udf.errors import CancelledError, ImageError, RowError
from dbinfer_udf.host import interrupts, protocol

GOOD = tiny_models.file(tiny_models.picture(1, 2, 3))
HANGS = tiny_models.file(tiny_models.picture(200, 200, 200))
ANSWER = "{2.0,3.0,4.0}"


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[client.Engine]:
    folder = tmp_path / "engine"
    folder.mkdir(mode=0o700)
    made = engine_models.engine(folder)
    yield made
    left = [pid for pids in processes(made).values() for pid in pids]
    client.stop(made.settings)
    # a worker that hangs is waited for, and then killed
    for pid in processes(made)["worker"]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not engine_models.alive(left), "the end of all processes")


def opened(engine: client.Engine, tmp_path: Path, **settings: str) -> Any:
    spec, entry = engine_models.ticket(tiny_models.endless(tmp_path), tmp_path / "cache", **settings)
    return engine.open(spec, entry.folder, 1)


class Asked(threading.Thread):
    """Asks in another thread; keeps the answer or the error."""

    def __init__(self, model: Any, img: bytes = HANGS) -> None:
        super().__init__()
        self.model, self.img, self.found = model, img, None
        self.start()

    def run(self) -> None:
        try:
            self.found = self.model.ask("predict", self.img, None)
        except Exception as err:
            self.found = err

    def error(self) -> Any:
        self.join(60)
        assert isinstance(self.found, Exception), self.found
        return self.found


def running(engine: client.Engine) -> bool:
    """Whether a worker is in the middle of a network."""
    return facts_of(engine)["running"] > 0 and any(cpu(pid) > 5 for pid in processes(engine)["worker"])


def facts_of(engine: client.Engine) -> dict[str, Any]:
    (facts,) = client.status(engine.settings)[0]["models"]
    return facts


def counts(engine: client.Engine) -> dict[str, int]:
    facts = facts_of(engine)
    return {name: facts[name] for name in ("restarts", "errors", "requests")}


def cpu(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11])
    except OSError:
        return 0


def busy(engine: client.Engine) -> int:
    return max(processes(engine)["worker"], key=cpu)


@pytest.mark.parametrize("number", [signal.SIGKILL, *wide(signal.SIGSEGV, signal.SIGBUS)])
def test_a_worker_that_dies_costs_its_row_alone(
    engine: client.Engine, tmp_path: Path, number: signal.Signals
) -> None:
    model = opened(engine, tmp_path)
    asked = Asked(model)
    wait_until(lambda: running(engine), "a row in a worker")
    os.kill(busy(engine), number)
    err = asked.error()
    word = "was killed" if number == signal.SIGKILL else f"crashed ({number.name})"
    # as an error of its image, it is NULL where on_error is 'null'
    assert isinstance(err, ImageError)
    assert (err.message, err.sqlstate) == (f"the worker that scored this image {word}", "XX000")
    assert [model.ask("predict", GOOD, None) for _ in range(5)] == [ANSWER] * 5
    # a worker counts a row when it has sent the answer
    wait_until(lambda: counts(engine) == {"restarts": 1, "errors": 1, "requests": 6}, "the counts")


def test_a_network_that_hangs_ends_with_its_time(engine: client.Engine, tmp_path: Path) -> None:
    model = opened(engine, tmp_path, max_inference_seconds="1")
    with pytest.raises(RowError, match=r"scoring this image took more than 1 s") as caught:
        model.ask("predict", HANGS, None)
    assert caught.value.sqlstate == "54000"
    assert "--max-inference-seconds" in caught.value.hint
    assert model.ask("predict", GOOD, None) == ANSWER


@pytest.mark.wide
def test_a_worker_that_no_timer_ends_is_killed(engine: client.Engine, tmp_path: Path) -> None:
    model = opened(engine, tmp_path, max_inference_seconds="5")  # on a busy machine it begins late
    asked = Asked(model)
    wait_until(lambda: running(engine), "a row in a worker")
    os.kill(busy(engine), signal.SIGSTOP)
    assert asked.error().message == "the worker that scored this image was killed"
    assert model.ask("predict", GOOD, None) == ANSWER


def test_a_cancel_is_heard_at_once_and_frees_the_worker(
    engine: client.Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = opened(engine, tmp_path)
    workers = processes(engine)["worker"]
    asked = Asked(model)
    wait_until(lambda: running(engine), "a row in a worker")
    monkeypatch.setattr(interrupts, "cancelled", lambda: True)
    assert isinstance(asked.error(), CancelledError)
    monkeypatch.undo()
    wait_until(lambda: processes(engine)["worker"] != workers, "the end of the worker")
    assert model.ask("predict", GOOD, None) == ANSWER


@pytest.mark.wide
@pytest.mark.parametrize("victim", ["loader", "zygote"])
def test_the_parents_of_workers_are_replaced(engine: client.Engine, tmp_path: Path, victim: str) -> None:
    model = opened(engine, tmp_path)
    asked = Asked(model)
    wait_until(lambda: running(engine), "a row in a worker")
    old = processes(engine)
    os.kill(old[victim][0], signal.SIGKILL)
    assert "was killed" in asked.error().message
    assert model.ask("predict", GOOD, None) == ANSWER
    assert processes(engine)["engine"] == old["engine"]
    wait_until(lambda: not engine_models.alive(old["worker"]), "the end of the old workers")


def test_a_killed_supervisor_takes_all_along_and_the_row_is_asked_once_more(
    engine: client.Engine, tmp_path: Path
) -> None:
    model = opened(engine, tmp_path, max_inference_seconds="2")
    asked = Asked(model)
    wait_until(lambda: running(engine), "a row in a worker")
    old = processes(engine)
    os.kill(old["engine"][0], signal.SIGKILL)
    wait_until(lambda: not engine_models.alive(chain(*old.values())), "the end of all others")
    # in the next engine the network hangs again, and its time ends it
    assert "took more than 2 s" in asked.error().message
    assert model.ask("predict", GOOD, None) == ANSWER
    assert processes(engine)["engine"] != old["engine"]


def test_an_engine_that_ends_opens_no_model_in_the_way_of_the_next(
    engine: client.Engine, tmp_path: Path
) -> None:
    model = opened(engine, tmp_path, max_inference_seconds="4")
    asked = Asked(model)
    wait_until(lambda: running(engine), "a row in a worker")
    old, place = processes(engine), address.find(engine.settings, engine.digest)
    late = dict(model._wanted, op="open", server=os.getpid(), python=sys.version_info[:2])
    with socket.socket(socket.AF_UNIX) as question:
        question.connect(place.control)
        question.send(protocol.frame(late)[:1])
        # who asks after it is heard after it
        address.call(place.control, {"op": "hello"})
        client.stop(engine.settings)
        question.send(protocol.frame(late)[1:])
        answer = question.recv(1000)
    assert model.ask("predict", GOOD, None) == ANSWER
    assert "took more than 4 s" in asked.error().message
    wait_until(lambda: not engine_models.alive(chain(*old.values())), "the end of the first engine")
    assert model.ask("predict", GOOD, None) == ANSWER
    assert answer == b""


def test_a_model_whose_socket_was_removed_is_opened_again(engine: client.Engine, tmp_path: Path) -> None:
    model = opened(engine, tmp_path)
    os.unlink(model._path)
    assert model.ask("predict", GOOD, None) == ANSWER
    assert len(processes(engine)["engine"]) == 1


@pytest.mark.wide
def test_a_client_that_dies_in_the_queue_costs_nothing(engine: client.Engine, tmp_path: Path) -> None:
    model = opened(engine, tmp_path, max_inference_seconds="10")  # a busy machine needs seconds for the queue
    cores = facts_of(engine)["workers"]
    hanging = [Asked(model) for _ in range(cores)]
    wait_until(lambda: facts_of(engine)["running"] == cores, "busy workers")
    dying = os.fork()
    if dying == 0:
        try:
            model.ask("predict", HANGS, None)
        finally:
            os._exit(1)
    wait_until(lambda: facts_of(engine)["queue"] == 1, "a request in the queue")
    os.kill(dying, signal.SIGKILL)
    os.waitpid(dying, 0)
    assert model.ask("predict", GOOD, None) == ANSWER
    for asked in hanging:
        assert "took more than 10 s" in asked.error().message
    # the dead client's row never began
    wait_until(lambda: counts(engine)["requests"] == cores + 1, "the counts")


SERVER = """
import sys, time
sys.path[:0] = {paths!r}
import engine_models, tiny_models
from pathlib import Path
folder = Path({folder!r})
spec, entry = engine_models.ticket(tiny_models.endless(folder), folder / "cache")
model = engine_models.engine(folder / "engine").open(spec, entry.folder, 1)
print(model.ask("predict", tiny_models.file(tiny_models.picture(1, 2, 3)), None), flush=True)
time.sleep(600)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, *wide(signal.SIGTERM)])
def test_nothing_stays_when_the_server_ends(
    engine: client.Engine, tmp_path: Path, number: signal.Signals
) -> None:
    code = SERVER.format(paths=sys.path, folder=str(tmp_path))
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        assert server.stdout.readline().strip() == ANSWER
        left = processes(engine)
        assert [len(left[name]) for name in ("engine", "zygote", "loader")] == [1, 1, 1]
        server.send_signal(number)
    wait_until(lambda: not engine_models.alive(chain(*left.values())), "the end of all processes")
    assert not list((tmp_path / "engine").glob("*.sock"))
