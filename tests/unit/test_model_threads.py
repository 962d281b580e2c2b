"""Threads of an inference: what a trial measures on made-up hosts, what follows from it, and who goes by it."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import engine_models
import pytest

from dbinfer_udf.engine import client, models
from dbinfer_udf.host import cache, limits, process
from dbinfer_udf.model import trial_process, tried
from dbinfer_udf.model.device import Setup
from dbinfer_udf.model.trial import Limits, Result, TrialError, run_trial

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))
import tiny_models

# Milliseconds of work, and how many times an image's threads wait for each other
NETWORKS = {"digits": (0.04, 8), "mobilenet": (6.0, 65), "resnet50": (50.0, 70), "vit": (900.0, 200)}
CORES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128)


def taken(network: str, number: int) -> float:
    """Return the milliseconds of an image: work in equal parts, and 5 us or more for each wait."""
    work, waits = NETWORKS[network]
    return work / number + waits * 0.005 * math.log2(number)


def said_on(host: dict[str, Any], network: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return what the process of a trial says of threads on a host of so many cores."""
    said: list[dict[str, Any]] = []
    monkeypatch.setattr(limits, "cores", lambda: host["cores"])
    monkeypatch.setattr(limits.os, "uname", lambda: SimpleNamespace(nodename="sdw1", machine="x86_64"))
    monkeypatch.setattr(trial_process, "_request", lambda core, xml, call, number: number)
    monkeypatch.setattr(trial_process, "_median", lambda request, clock: taken(network, request))
    monkeypatch.setattr(trial_process, "_waited_for_cores", lambda: 0.0)
    monkeypatch.setattr(trial_process, "_say", lambda **line: said.append(line))
    monkeypatch.setitem(sys.modules, "openvino", SimpleNamespace(Core=lambda: None))
    call = {
        "threads": limits.threads_to_try(settings_of(host)),
        "pays": limits.PAYS,
        "xml": "",
        "precision": "",
    }
    trial_process._measure_threads(call, 1, taken(network, 1), 60.0)
    return said


def settings_of(host: dict[str, Any]) -> dict[str, str]:
    segments = {"segments@sdw1": str(host["segments"])} if "segments" in host else {}
    return {"workers": str(host.get("workers", 0)), **segments}


def decided(host: dict[str, Any], network: str, monkeypatch: pytest.MonkeyPatch) -> int:
    said = said_on(host, network, monkeypatch)
    by_threads = {"1": taken(network, 1), **{str(line["threads"]): line["together"] for line in said}}
    monkeypatch.setattr(process, "content_id", lambda: 0 if "segments" in host else None)
    settings = settings_of(host)
    return limits.threads_taken(settings, limits.most_threads(settings), by_threads)


HOSTS = [
    *({"cores": cores, "workers": workers} for cores in CORES for workers in (0, 1, 2, 4, 7, 16)),
    *({"cores": cores, "segments": segments} for cores in CORES for segments in (1, 2, 3, 4, 8, 16)),
]


@pytest.mark.parametrize("network", NETWORKS)
def test_threads_of_made_up_hosts(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for host in HOSTS:
        number = decided(host, network, monkeypatch)
        processes = host.get("segments", host.get("workers", 0) + 1)
        one, several = taken(network, 1), taken(network, number)
        assert 1 <= number <= max(1, host["cores"] // processes), host
        # nobody's cores are burnt: without a gain of 10 % the processor's time is that of one thread
        assert one / several >= 1.1 or number * several <= 1.05 * one, (host, number)
        assert one >= limits.PAYS * number * several * (1 - 1e-9), (host, number)


def test_as_many_threads_as_pay(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for host, digits, mobilenet, resnet50, vit in [
        ({"cores": 1}, 1, 1, 1, 1),
        ({"cores": 2}, 1, 2, 2, 2),
        ({"cores": 2, "workers": 1}, 1, 1, 1, 1),
        ({"cores": 8}, 1, 2, 8, 8),
        ({"cores": 12, "workers": 2}, 1, 2, 4, 4),
        ({"cores": 32}, 1, 2, 8, 32),
        ({"cores": 32, "workers": 2}, 1, 2, 8, 10),
        ({"cores": 32, "segments": 4}, 1, 2, 8, 8),
        ({"cores": 128}, 1, 2, 8, 64),
        ({"cores": 128, "segments": 16}, 1, 2, 8, 8),
        ({"cores": 16, "segments": 16}, 1, 1, 1, 1),
    ]:
        with subtests.test(host=host, digits=digits, mobilenet=mobilenet, resnet50=resnet50):
            found = [decided(host, network, monkeypatch) for network in NETWORKS]
            assert found == [digits, mobilenet, resnet50, vit]


@pytest.mark.parametrize("network", NETWORKS)
def test_few_numbers_are_tried(network: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each compiles the network once more: a fast one is done after the first, a slow one begins at the top."""
    tried_on = [line["threads"] for line in said_on({"cores": 128}, network, monkeypatch)]
    assert (
        tried_on
        == {
            "digits": [2],
            "mobilenet": [2, 4],
            "resnet50": [128, 64, 32, 16, 8],
            "vit": [128, 64],
        }[network]
    )


def test_no_further_number_after_as_long_as_the_trial_took(monkeypatch: pytest.MonkeyPatch) -> None:
    now = iter(range(0, 1000, 7))
    monkeypatch.setattr(trial_process.time, "perf_counter", lambda: float(next(now)))
    assert len(said_on({"cores": 128}, "resnet50", monkeypatch)) < 4


def test_threads_that_waited_for_cores_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    waited = iter(range(1000))
    monkeypatch.setattr(trial_process, "BUSY_SECONDS", -1.0)
    monkeypatch.setattr(trial_process, "_median", lambda request, clock: 25.0)
    monkeypatch.setattr(trial_process, "_waited_for_cores", lambda: float(next(waited)))
    assert trial_process._time_together(None, 2) == (25.0, True)


def test_an_administrators_number_is_taken_as_it_is() -> None:
    assert (
        limits.threads_taken({"threads": "5"}, limits.most_threads({"threads": "5"}), {"1": 1.0, "2": 9.0})
        == 5
    )


def test_nothing_measured_is_one_thread() -> None:
    assert limits.threads_taken({}, 16, {}) == 1


def test_a_trial_says_what_several_threads_take(tmp_path: Path) -> None:
    path = tiny_models.convolution(tmp_path)
    entry = engine_models.ticket(path, tmp_path / "cache")[1]
    found = run_trial(sys.executable, entry.path("xml"), Setup("f32"), Limits(), threads=[2])
    assert found.busy or set(found.by_threads) == {"1", "2"}


@pytest.fixture
def entry(tmp_path: Path) -> Any:
    return engine_models.ticket(tiny_models.convolution(tmp_path), tmp_path / "cache")[1]


def trying(monkeypatch: pytest.MonkeyPatch, result: Result | TrialError) -> list[int]:
    """Let trials find this; return a list that grows with each."""
    count: list[int] = []

    def trial(*given: Any, **more: Any) -> Result:
        count.append(1)
        if isinstance(result, TrialError):
            raise result
        return result

    monkeypatch.setattr(tried, "run_trial", trial)
    return count


def use(entry: Any, most: int = 2, **settings: str) -> dict[str, float]:
    return tried.require_tried(entry, "f32", settings, "1", most)


def test_facts_without_threads_are_read_and_tried_once_more(
    entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trying(monkeypatch, Result(10.0, 1.5, 1))
    use(entry)
    note = Path(cache.trial_path(entry.folder))
    old = {name: value for name, value in json.loads(note.read_text()).items() if name in cache.TRIAL_KEYS}
    note.write_text(json.dumps(old))
    assert cache.milliseconds_of(entry.folder) == 1.5
    count = trying(monkeypatch, Result(10.0, 1.5, 1, by_threads={"1": 1.5, "2": 0.8}))
    assert [use(entry), use(entry), len(count)] == [{"1": 1.5, "2": 0.8}] * 2 + [1]


def aged(entry: Any, seconds: float, monkeypatch: pytest.MonkeyPatch) -> None:
    values, _ = cache.read_trial(entry.folder)
    monkeypatch.setattr(tried, "read_trial", lambda folder: (values, seconds))


def test_a_busy_host_is_tried_again_an_hour_later(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    trying(monkeypatch, Result(10.0, 1.5, 1, busy=True))
    use(entry)
    count = trying(monkeypatch, Result(10.0, 1.5, 1))
    use(entry)
    assert not count
    aged(entry, 2 * tried.BUSY_SECONDS, monkeypatch)
    # one thread is all that these may take, or what was set
    use(entry, 1)
    use(entry, 2, threads="2")
    assert not count
    use(entry)
    assert count


def test_a_model_that_has_passed_is_not_lost_by_another_try(
    entry: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    trying(monkeypatch, Result(10.0, 1.5, 1, busy=True))
    use(entry)
    aged(entry, 2 * tried.BUSY_SECONDS, monkeypatch)
    trying(monkeypatch, TrialError("one image took more than 30 s", "max_inference_seconds"))
    assert use(entry) == {}


@pytest.mark.parametrize(("together", "number"), [(2.0, 4), (4.0, 1)])
def test_a_backend_compiles_for_the_threads_that_pay(
    together: float, number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec, entry = engine_models.ticket(tiny_models.convolution(tmp_path), tmp_path / "cache")
    trying(monkeypatch, Result(1.0, 6.0, 1, by_threads={"1": 6.0, "4": together}))
    session = SimpleNamespace(models={}, present=lambda spec: entry)
    assert models._load_here(session, spec, 4).threads == number


@pytest.fixture
def engine(tmp_path: Path) -> Any:
    made = engine_models.engine(tmp_path / "sockets")
    yield made
    client.stop(made.settings, made.digest)


def test_the_engine_loads_for_the_threads_that_pay(engine: client.Engine, tmp_path: Path) -> None:
    """Two threads for a network of microseconds, as a lone session of two cores wants them."""
    spec, entry = engine_models.ticket(tiny_models.convolution(tmp_path), tmp_path / "cache")
    first, second = (engine.open(spec, entry.folder, wanted) for wanted in (2, 1))
    assert (first.facts["threads"], first._key) == (1, second._key)
    assert first.facts["sandbox"].get("compiled") is None
    (model,) = client.status(engine.settings)[0]["models"]
    assert (model["threads"], model["workers"]) == (1, limits.cores())


AFFINITY = """
import ctypes, os, sys
from dbinfer_udf.host import libraries
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.host import sandbox
from dbinfer_udf.model.device import Setup
from dbinfer_udf.model.model import Compiled

setup = Setup("f32")
compiled = Compiled(libraries.import_libraries("", 1 << 20)["openvino"], Entry(*sys.argv[1:]), setup)
compiled.infer()
assert "HWLOC_THISSYSTEM" not in os.environ
numbers = [(203, 122), (204, 123)]  # sched_setaffinity and sched_getaffinity on x86-64 and on ARM
machine = sandbox._machine()
steps = sandbox._first_steps(machine)
for pair in numbers:
    steps += [(sandbox.EQUAL, 0, 1, pair[sandbox._column(machine)]), (sandbox.RETURN, 0, 0, sandbox.KILL)]
sandbox.no_new_privileges()
sandbox._load_filter([*steps, (sandbox.RETURN, 0, 0, sandbox.ALLOW)], alone=False)
compiled.infer()
print("scored")
"""


def test_an_inference_leaves_the_affinity_alone(tmp_path: Path) -> None:
    """The kernel ends the process at its first call: OpenVINO made three for each image, 5 of 110 us of the digits."""
    spec, _ = engine_models.ticket(tiny_models.convolution(tmp_path), tmp_path / "cache")
    files = [str(tmp_path / "cache"), spec["xml_digest"], spec["bin_digest"]]
    call = [sys.executable, "-c", AFFINITY, *files]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "scored\n"), done.stderr
