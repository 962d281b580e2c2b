"""Workers and loaders that were taken over: what they write and send is believed by nobody above them.

Each engine here runs a runtime of its own, in which one module ends with what an attacker would do.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models
from engine_models import processes, wait_until
from variants import wide

from dbinfer_udf.engine import client
from dbinfer_udf.engine import slots as the_slots
from dbinfer_udf.engine.slots import SIZE, Slots, make_slots
from dbinfer_udf.errors import EngineError, RowError

GOOD = tiny_models.file(tiny_models.picture(1, 2, 3))
EVIL = tiny_models.file(tiny_models.picture(200, 200, 200))
Hostile = Callable[..., client.Engine]

# a worker that does what follows when it is shown the evil image
TAKEN = """

_honest = Worker._score
def _score(self, request):
    if request.img == {evil!r}:
        {act}
    return _honest(self, request)
Worker._score = _score
"""


@pytest.fixture
def hostile(tmp_path: Path) -> Iterator[Hostile]:
    """Return an engine one of whose modules has an end of ours."""
    with ExitStack() as ends:

        def made(module: str, end: str) -> client.Engine:
            folder = tmp_path / "engine"
            folder.mkdir(mode=0o700, exist_ok=True)
            modules = dict(engine_models.content().modules)
            modules[module] += end
            modules["engine.loader"] += "\nLATE_SECONDS = 2.0\n"  # not 15
            engine = client.Engine({"engine_dir": str(folder)}, "hostile-runtime", lambda: modules)
            ends.callback(ended, engine)
            return engine

        yield made


def ended(engine: client.Engine) -> None:
    left = [pid for pids in processes(engine).values() for pid in pids]
    client.stop(engine.settings)
    for pid in processes(engine)["worker"]:
        os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not engine_models.alive(left), "the end of all processes")


def opened(engine: client.Engine, tmp_path: Path, name: str = "model", **settings: str) -> Any:
    spec, entry = engine_models.ticket(
        tiny_models.convolution(tmp_path, name), tmp_path / "cache", **settings
    )
    return engine.open(spec, entry.folder, 1)


def taken(hostile: Hostile, act: str) -> client.Engine:
    return hostile("engine.worker", TAKEN.format(evil=EVIL, act=act))


@pytest.mark.wide
def test_a_worker_that_never_answers_and_says_that_it_does_nothing_is_ended(
    hostile: Hostile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    act = "self._slot.end(); signal.setitimer(signal.ITIMER_REAL, 0); [signal.pause() for _ in iter(int, 1)]"
    engine = taken(hostile, act)
    model = opened(engine, tmp_path, max_inference_seconds="1")
    other = opened(engine, tmp_path, "other")
    right = [one.ask("predict", GOOD, None) for one in (other, model)]
    monkeypatch.setattr("dbinfer_udf.engine.client.TRIES", 2)
    # it keeps its permit and its row; the rows of other models and the model's own go on
    with pytest.raises((EngineError, RowError)):
        model.ask("predict", EVIL, None)
    assert [[one.ask("predict", GOOD, None) for one in (other, model)] for _ in range(3)] == [right] * 3


@pytest.mark.wide
@pytest.mark.parametrize(
    "values", ["b'x' * 8, float('nan'), 2 ** 64 - 1, 2 ** 64 - 1", "b'x' * 8, 1e308, 2 ** 64 - 1, 0"]
)
def test_counts_that_cannot_be_are_no_end_of_anything(hostile: Hostile, tmp_path: Path, values: str) -> None:
    act = (
        "from .slots import WHOLE; WHOLE.pack_into(self._slot._memory, self._slot._at, " + values + "); "
        "import os; os._exit(1)"
    )
    engine = taken(hostile, act)
    model = opened(engine, tmp_path)
    right = model.ask("predict", GOOD, None)
    with pytest.raises((EngineError, RowError)):
        model.ask("predict", EVIL, None)
    # workers come again, and so does a loader
    assert [model.ask("predict", GOOD, None) for _ in range(5)] == [right] * 5
    # a worker that was forked just now bears the loader's name still
    wait_until(lambda: len(processes(engine)["loader"]) == 1, "the name of the worker")
    (loader,) = processes(engine)["loader"]
    os.kill(loader, signal.SIGKILL)
    wait_until(lambda: processes(engine)["loader"] not in ([], [loader]), "another loader")
    assert model.ask("predict", GOOD, None) == right
    (facts,) = client.status(engine.settings)[0]["models"]
    assert 0 <= facts["requests"] < 2**63


def test_what_a_slot_says_is_bounded() -> None:
    fd = make_slots(1)
    slots = Slots(fd)
    os.pwrite(fd, b"\xff" * SIZE, 0)
    state, most = slots.read(0), the_slots.MOST_COUNTED
    assert (state.since, state.requests, state.errors) == (0.0, most, most)
    slots.clear(0, True)
    slots.slot(0).begin(b"12345678")
    slots.slot(0).end()
    os.close(fd)


LOADER_SAYS = """

def _say(self, message):
    import json
    said = {said}
    self._channel.send(said if isinstance(said, bytes) else json.dumps(said).encode())
Loader._say = _say
"""
DEEP = "b'[' * 100000"
SAYINGS = {
    "no JSON": "b'\\xff'",
    "JSON without an end": DEEP,
    "a list": "[1, 2]",
    "facts that are none": "{'facts': 7, 'pid': 1}",
    "rows without end": "{'facts': {'rows': 10 ** 400, 'result_bytes': -1}, 'pid': 1}",
    "texts for a terminal": "{'error': {'message': '\\x1b]0;x\\x07 no', 'sqlstate': '\\x1b', 'kind': 'Evil'}}",
    "an error that is none": "{'error': 5}",
    "threads that cannot be": "{'threads': True}",
    "a number of threads that is none": "{'threads': {'1': -1}}",
    "a death of nobody": "{'died': 'x' * 60000, 'why': {'message': '\\x1b[2J', 'kind': []}}",
    "all at once": "{'facts': [], 'threads': 0, 'error': None, 'died': 7}",
}


@pytest.mark.parametrize("name", ["no JSON", *wide(*list(SAYINGS)[1:])])
def test_a_host_that_says_anything_ends_no_engine(hostile: Hostile, tmp_path: Path, name: str) -> None:
    engine = hostile("engine.loader", LOADER_SAYS.replace("{said}", SAYINGS[name]))
    try:
        # one that goes on saying nothing of use is ended by these
        seconds = {"max_compile_seconds": "2", "max_inference_seconds": "0.5"}
        found = repr(opened(engine, tmp_path, **seconds).facts)
    except EngineError as err:
        found = err.message + err.sqlstate + str(err.hint)
    assert "\x1b" not in found
    (facts,) = client.status(engine.settings)
    # the supervisor lives, and has noted no number of another process
    assert 1 not in [model.get("pid") for model in facts["models"]]
    log = (tmp_path / "engine" / "engine.log").read_text()
    assert "Unexpected" not in log
    assert "\x1b" not in log


WORKER_SAYS = """

def _failure(err):
    body = {said}
    return protocol.ANSWER.pack(protocol.MAGIC, protocol.ERROR, len(body)) + body
protocol.pack_error = _failure
"""


@pytest.mark.wide
@pytest.mark.parametrize(
    "said", ["b'{}'", "b'7'", "b'null'", 'b\'{"other": "a\\x00b"}\'', 'b\'{"kind": [], "sqlstate": 1}\'']
)
def test_an_error_that_is_none_is_an_error(hostile: Hostile, tmp_path: Path, said: str) -> None:
    engine = hostile("engine.worker", WORKER_SAYS.replace("{said}", said))
    model = opened(engine, tmp_path)
    right = model.ask("predict", GOOD, None)
    with pytest.raises(Exception) as caught:  # noqa: PT011 - its class is the worker's choice, within ours
        model.ask("predict", b"no image", None)
    assert "\0" not in str(caught.value) + type(caught.value).__name__
    assert model.ask("predict", GOOD, None) == right


def test_a_worker_that_says_anything_of_a_warmed_model() -> None:
    """It was an unexpected KeyError or TypeError of the session that asked."""
    model = client.RemoteModel.__new__(client.RemoteModel)
    model._load_milliseconds = 1.0
    for said in ("", "x", "[]", "5", "{}", "[" * 100_000, '{"milliseconds": "9"}', '{"milliseconds": NaN}'):
        with pytest.raises(EngineError, match="a worker of the engine answered what is no result"):
            model._warmed(said)
    found = json.loads(model._warmed(json.dumps({"milliseconds": 1.5, "model": "\x1b[2J"})))
    assert (found["milliseconds"], found["model"]) == (2.5, "?[2J")
