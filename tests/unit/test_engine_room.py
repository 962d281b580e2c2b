"""Engines that race, rest and run out of room, an older one beside a newer one; sessions and models take turns."""

from __future__ import annotations

import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engine_models
import pytest
import tiny_models
from engine_models import processes, wait_until
from engine_places import GOOD, engine_folder, opened, passing, ready

from dbinfer_udf.engine import address, client
from dbinfer_udf.engine.address import Address
from dbinfer_udf.engine.supervisor import Supervisor
from dbinfer_udf.errors import ModelError
from dbinfer_udf.host import limits, protocol


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with engine_folder(tmp_path) as made:
        yield made


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


@pytest.mark.wide
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


@pytest.mark.wide
def test_of_twenty_that_start_at_once_one_remains(folder: Path) -> None:
    start = ready(folder)
    found = in_threads(20, lambda: start().ask("predict", GOOD, None))
    assert found == ["{1.0,1.0,1.0}"] * 20
    assert len(client.status({"engine_dir": str(folder)})) == 1
    log = (folder / "engine.log").read_text()
    assert (log.count("starts with"), log.count("is loaded")) == (1, 1)


@pytest.mark.wide
def test_two_hundred_clients_at_once(folder: Path) -> None:
    model = opened(folder)
    found = in_threads(200, lambda: [model.ask("predict", GOOD, None) for _ in range(5)])
    assert found == [["{1.0,1.0,1.0}"] * 5] * 200


def test_a_log_of_json(folder: Path) -> None:
    path = folder / "engine.json"
    assert opened(folder, engine_log=str(path)).ask("predict", GOOD, None) == "{1.0,1.0,1.0}"
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert {tuple(line) for line in lines} == {("timestamp", "pid", "backend_type", "message")}
    assert any("is loaded" in line["message"] for line in lines)
    assert not (folder / "engine.log").exists()


def test_a_full_disk_costs_the_log_and_nothing_else(folder: Path) -> None:
    assert opened(folder, engine_log="/dev/full").ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


@pytest.mark.wide
def test_an_engine_that_rests_ends_and_comes_back(folder: Path) -> None:
    model = opened(folder, engine_idle_seconds="1")
    pids = processes(model._engine)["engine"]
    wait_until(lambda: not engine_models.alive(pids), "the end of the engine")
    assert "Nobody has asked for 1 seconds." in (folder / "engine.log").read_text()
    assert model.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


def test_an_engine_that_waits_for_its_last_row_says_once_why_it_goes(tmp_path: Path) -> None:
    """It said each second that nobody had asked, until the last row was scored."""
    said: list[str] = []
    engine: Any = SimpleNamespace(ending=False, place=Address(str(tmp_path), "d"))
    engine.log = SimpleNamespace(say=said.append)
    engine._questions = SimpleNamespace(stop=lambda: None)
    engine.shelf = SimpleNamespace(finish=lambda: None)
    for why in ("Told to stop.", "Nobody has asked for 1 seconds.", "The server has ended."):
        Supervisor.finish(engine, why)
    assert said == ["Told to stop."]


def test_the_model_that_was_not_used_for_longest_goes(folder: Path) -> None:
    first = opened(folder, 1, engine_memory_mb="1")
    second = opened(folder, 2, engine_memory_mb="1")
    assert "Model constant1@1 goes" in (folder / "engine.log").read_text()
    assert [one["model"] for one in client.status(first._engine.settings)[0]["models"]] == ["constant2"]
    assert second.ask("predict", GOOD, None) == "{2.0,2.0,2.0}"
    # it comes back when it is asked for
    assert first.ask("predict", GOOD, None) == "{1.0,1.0,1.0}"


@pytest.mark.wide
def test_fast_models_for_first_rows_are_few_and_have_one_worker_each(folder: Path) -> None:
    """16 versions that each scored one row made 50 processes and 538 MB on two cores."""
    models = [passing(folder, number) for number in range(6)]
    assert [model.ask("predict", GOOD, None) for model in models] == [
        f"{{{number:.1f},{number:.1f},{number:.1f}}}" for number in range(6)
    ]

    def counts() -> dict[str, int]:
        return {kind: len(pids) for kind, pids in processes(models[0]._engine).items()}

    wait_until(lambda: counts() == {"engine": 1, "zygote": 1, "loader": 4, "worker": 4}, "the others' end")
    # the first comes back, and the one that was not used for longest goes
    assert models[0].ask("predict", GOOD, None) == "{0.0,0.0,0.0}"
    wait_until(lambda: list(asked(folder)) == ["constant3", "constant4", "constant5", "constant0"], "it")


@pytest.mark.wide
def test_a_fast_model_gets_all_its_workers_where_the_engine_scores_all_its_rows(folder: Path) -> None:
    few = passing(folder, 1, max_models="1")

    def workers() -> dict[str, int]:
        (engine,) = client.status({"engine_dir": str(folder)})
        return {one["model"]: one["workers"] for one in engine["models"]}

    assert workers() == {"constant1": 1}
    spec = few._wanted["spec"]
    always = dict(spec, settings=dict(spec["settings"], isolation="always"))
    assert few._engine.open(always, few._wanted["folder"], 1)._key == few._key
    wait_until(lambda: len(processes(few._engine)["worker"]) == limits.cores(), "the workers")
    # and it is none of those that make room for each other
    passing(folder, 2, max_models="1")
    passing(folder, 3, max_models="1")
    assert workers() == {"constant1": limits.cores(), "constant3": 1}


@pytest.mark.wide
def test_a_model_that_was_opened_for_nothing_goes_and_one_in_use_stays(folder: Path) -> None:
    idle, used = opened(folder, 1), opened(folder, 2)
    assert used.ask("predict", GOOD, None) == "{2.0,2.0,2.0}"
    # a worker counts a row when it has sent the answer
    wait_until(lambda: asked(folder) == {"constant1": 0, "constant2": 1}, "the counts")
    idle.release()
    used.release()
    wait_until(lambda: asked(folder) == {"constant2": 1}, "the idle model's end")


def asked(folder: Path) -> dict[str, int]:
    """Return how often each model of the engine was asked."""
    (engine,) = client.status({"engine_dir": str(folder)})
    return {one["model"]: one["requests"] for one in engine["models"]}


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


def asking(engine: client.Engine, model: tuple[dict[str, Any], Any]) -> socket.socket:
    """Return the connection of a session that waits for a model, as its statement does."""
    spec, entry = model
    wanted = {"spec": spec, "folder": entry.folder, "threads": 1, "rows": 1}
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(60)
    connection.connect(address.find(engine.settings, engine.digest).control)
    message = dict(wanted, op="open", server=os.getpid(), python=sys.version_info[:2])
    connection.sendall(protocol.frame(message))
    return connection


def trials(engine: client.Engine) -> list[int]:
    """Return the processes of trials: what loaders that load have started."""
    return [pid for loader in processes(engine)["loader"] for pid in engine_models.children_of(loader)]


def slow_to_try(folder: Path, seconds: int) -> tuple[client.Engine, tuple[dict[str, Any], Any]]:
    """Return an engine that runs, and a model whose trial takes as long as it may."""
    engine = engine_models.engine(folder)
    engine.attach()
    path = tiny_models.loop(folder.parent, 2 * 10**9)
    return engine, engine_models.ticket(path, folder.parent / "cache", max_inference_seconds=str(seconds))


@pytest.mark.wide
def test_a_trial_for_which_nobody_waits_any_more_ends(folder: Path) -> None:
    """It went on for as long as an image may take, after a cancel of the only statement that had asked."""
    engine, model = slow_to_try(folder, 3600)
    asked_by = [asking(engine, model) for _ in range(2)]
    wait_until(lambda: trials(engine), "the trial")
    (trial,) = trials(engine)
    for connection in asked_by:
        connection.close()
    wait_until(lambda: not engine_models.title_of(trial), "the end of the trial")
    wait_until(lambda: not processes(engine)["loader"], "the end of the loader")
    assert client.status(engine.settings)[0]["models"] == []
    assert "Model loop@1 is given up: nobody waits for it any more." in (folder / "engine.log").read_text()
    # nothing was learnt, so whoever comes next has it tried again
    with asking(engine, model):
        wait_until(lambda: trials(engine), "another trial")


@pytest.mark.wide
def test_who_waits_on_gets_the_answer_of_the_same_trial(folder: Path) -> None:
    engine, model = slow_to_try(folder, 4)
    leaves, stays = [asking(engine, model) for _ in range(2)]
    wait_until(lambda: trials(engine), "the trial")
    leaves.close()
    said = b""
    with stays:
        while (found := protocol.unframe(said)) is None:
            said += stays.recv(1 << 16)
    assert found["error"]["message"] == "the model was not run: one image took more than 4 s"
    assert "is given up" not in (folder / "engine.log").read_text()


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
    # Each of the others once, and those that workers had in hand or took up meanwhile. On a busy machine some of these
    # rows are late on their way to the queue, after they were counted from; without turns all would wait for many
    assert sorted(overtaken)[len(overtaken) // 2] <= others + 2 * limits.cores()
