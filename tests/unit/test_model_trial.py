"""The process that tries a model: what it measures, what it refuses, and that it is gone afterwards."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from dbinfer.base.errors import ModelFileError
from dbinfer.models.precision import try_model
from dbinfer_udf.host import own_python
from dbinfer_udf.model import trial_process
from dbinfer_udf.model.device import Setup
from dbinfer_udf.model.trial import AbandonedError, Limits, TrialError, run_trial

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))
import tiny_models

ENDLESS = 2 * 10**9


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The processes that trials start."""
    found: list[Any] = []

    class Popen(subprocess.Popen):  # type: ignore[type-arg]
        def __init__(self, *args: Any, **more: Any) -> None:
            super().__init__(*args, **more)
            found.append(self)

    monkeypatch.setattr(own_python.subprocess, "Popen", Popen)
    return found


def test_a_sound_model_is_measured(tmp_path: Path) -> None:
    found = run_trial(
        sys.executable, tiny_models.on_disk(tiny_models.convolution(tmp_path)), Setup("f32"), Limits()
    )
    assert found.milliseconds > 0
    assert found.compile_milliseconds > 0
    assert 10 << 20 < found.peak_bytes < 4 << 30


def test_other_programs_do_not_count(capsys: pytest.CaptureFixture[str]) -> None:
    """A process that waits for a core has the clock on the wall against it: resnet50 was tried at 290 ms for 45."""

    class Waiting:
        def infer(self) -> None:
            time.sleep(0.2)

    assert trial_process._timed(Waiting()) < 100
    assert json.loads(capsys.readouterr().out)["image"] < 100


def test_an_endless_loop_of_a_few_kilobytes_is_ended(tmp_path: Path, started: list[Any]) -> None:
    path = tiny_models.loop(tmp_path, ENDLESS)
    assert path.stat().st_size < 6000
    limits = Limits(image_seconds=1)
    with pytest.raises(
        ModelFileError, match=r"loop\.xml was not deployed: one image took more than 1 s"
    ) as caught:
        try_model(path, tiny_models.prepared(path), "f32", limits)
    assert "--max-inference-seconds" in caught.value.hint
    assert [process.poll() for process in started] == [-9]


def test_compiling_has_a_limit(tmp_path: Path) -> None:
    path = tiny_models.on_disk(tiny_models.convolution(tmp_path))
    with pytest.raises(TrialError, match=r"compiling it took more than 0\.01 s") as caught:
        run_trial(sys.executable, path, Setup("f32"), Limits(start_seconds=0.01))
    assert caught.value.setting == "max_compile_seconds"


@pytest.mark.parametrize("megabytes", [1, 100])
def test_memory_has_a_limit(tmp_path: Path, megabytes: int) -> None:
    path = tiny_models.on_disk(tiny_models.convolution(tmp_path))
    with pytest.raises(TrialError, match=f"needs more than {megabytes} MB of memory") as caught:
        run_trial(sys.executable, path, Setup("f32"), Limits(memory_bytes=megabytes << 20))
    assert caught.value.setting == "max_model_mb"


def test_memory_that_ends_while_a_library_is_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "openvino.py").write_text("raise OSError(12, 'Cannot allocate memory', '/usr/lib')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(TrialError, match="needs more than 100 MB of memory"):
        run_trial(sys.executable, "model.xml", Setup("f32"), Limits(memory_bytes=100 << 20))


def test_terabytes_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialError):
        run_trial(sys.executable, tiny_models.on_disk(tiny_models.enormous(tmp_path)), Setup("f32"), Limits())


def test_a_crash_is_said(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\nkill -SEGV $$\n")
    python.chmod(0o755)
    with pytest.raises(TrialError, match=r"OpenVINO crashed \(SIGSEGV\) while it was compiled"):
        run_trial(str(python), tiny_models.on_disk(tiny_models.convolution(tmp_path)), Setup("f32"), Limits())


def test_a_python_that_is_missing_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="cannot be started"):
        run_trial(str(tmp_path / "none"), "model.xml", Setup("f32"), Limits())


def test_who_gives_up_leaves_no_process(tmp_path: Path, started: list[Any]) -> None:
    path = tiny_models.on_disk(tiny_models.loop(tmp_path, ENDLESS))
    with pytest.raises(AbandonedError):
        run_trial(sys.executable, path, Setup("f32"), Limits(), stop=lambda: bool(started))
    assert started[0].poll() == -9


def test_settings_name_the_limits() -> None:
    named = {"max_compile_seconds": "5", "max_inference_seconds": "0.5", "max_model_mb": "10", "venv": "/x"}
    assert Limits.from_settings(named) == Limits(5, 0.5, 10 << 20)
    assert Limits.from_settings({}) == Limits(120, 30, 4 << 30)


def test_what_is_not_the_models_fault_does_not_last(tmp_path: Path) -> None:
    python = tmp_path / "python"
    python.write_text("#!/bin/sh\necho no module named openvino >&2; exit 1\n")
    python.chmod(0o755)
    for broken in (python, tmp_path / "none"):
        with pytest.raises(TrialError) as caught:
            run_trial(str(broken), "model.xml", Setup("f32"), Limits())
        assert not caught.value.lasting


SENSELESS = (
    "no JSON", "[]", "5", '"done"', "[" * 100_000, '{"done": 1}', '{"done": [1, 2]}', '{"done": [1, "2", 3]}',
    '{"done": [NaN, 1, 1]}', '{"done": [1, -1, 1]}', '{"done": [1, 1e300, 1]}', '{"batch": "fast"}', '{"threads": 2}',
    '{"threads": "2", "alone": 1, "together": 1, "busy": false}', '{"error": "x"}', '{"error": []}', '{"error": [1]}',
    '{"error": ["x", "venv"]}', '{"error": ["x", "max_model_mb", false]}', '{"other": 1}', '{"image": null}',
)  # fmt: skip


def speaking(folder: Path, words: str) -> str:
    """Return a Python that a model has taken over: it says what it likes."""
    python = folder / "python"
    python.write_text(f"#!/bin/sh\n{words}\n")
    python.chmod(0o755)
    return str(python)


def test_what_a_taken_over_trial_says_is_not_believed(tmp_path: Path) -> None:
    """A list in place of a number was stored, and then each row of the model an unexpected TypeError."""
    for number, line in enumerate(SENSELESS):
        file = tmp_path / str(number)
        file.write_text(line + "\n")
        with pytest.raises(TrialError, match=r"^the process that tried it said what makes no sense$"):
            run_trial(speaking(tmp_path, f"cat {file}"), "model.xml", Setup("f32"), Limits())
    words = """printf '{"error": ["\\\\u001b[2J"]}\\n'"""
    with pytest.raises(TrialError, match=r"^\?\[2J$"):
        run_trial(speaking(tmp_path, words), "model.xml", Setup("f32"), Limits())


def test_a_trial_that_says_something_again_and_again_ends(tmp_path: Path) -> None:
    """Each line gave it the whole time anew, so it never ended."""
    words = """while :; do echo '{"image": 1}'; done"""
    with pytest.raises(TrialError, match=r"^the process that tried it said what makes no sense$"):
        run_trial(speaking(tmp_path, words), "model.xml", Setup("f32"), Limits())
