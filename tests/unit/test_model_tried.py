"""The first use of a model on a host: who tries it, what is remembered, and what a full disk changes."""

from __future__ import annotations

import importlib
import json
import os
import shutil
import socket
import threading
from pathlib import Path
from typing import Any

import pytest

from dbinfer_udf.errors import ModelError
from dbinfer_udf.host import cache, interrupts, sandbox, tokenizers
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.model import tried
from dbinfer_udf.model.trial import AbandonedError, Limits, Result, TrialError

BAD = TrialError("one image took more than 30 s", "max_inference_seconds")


class Trials:
    """Stands in for the process that is tried; counts, and fails as it is told."""

    def __init__(self) -> None:
        self.count = 0
        self.error: Exception | None = None

    def __call__(self, *given: Any, **more: Any) -> Result:
        self.count += 1
        if self.error is not None:
            raise self.error
        return Result(10.0, 1.5, 1 << 20)


@pytest.fixture
def trials(monkeypatch: pytest.MonkeyPatch) -> Trials:
    found = Trials()
    monkeypatch.setattr(tried, "run_trial", found)
    return found


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    made = Entry(str(tmp_path), "1" * 64, "2" * 64)
    os.makedirs(made.folder)
    Path(made.path("xml")).write_bytes(b'<?xml version="1.0"?>\n<net name="a">')
    Path(made.path("bin")).write_bytes(b"")
    return made


def use(entry: Entry, settings: dict[str, str] | None = None, openvino: str = "1") -> None:
    tried.require_tried(entry, "f32", settings or {}, openvino)


def test_only_an_ir_is_tried_or_loaded(trials: Trials, entry: Entry) -> None:
    """OpenVINO tells a file by its content: an ONNX file of the name model.xml ran, and a success stays remembered."""
    use(entry)
    for head in (b"\x08\x08:B\n\x16", b"", b"<netTFL3", b"\x1c\0\0\0TFL3", b"<html>", b" " * 600 + b"<net>"):
        Path(entry.path("xml")).write_bytes(head)
        with pytest.raises(ModelError, match="is not an OpenVINO IR"):
            use(entry)
    assert trials.count == 1
    for head in (b"<net>", b'\n<?xml version="1.0"?><net name="a"', b"<net\n"):
        Path(entry.path("xml")).write_bytes(head)
        use(entry)


@pytest.mark.parametrize("when", ["before", "meanwhile"])
def test_files_that_go_say_to_run_the_statement_again(
    trials: Trials, entry: Entry, monkeypatch: pytest.MonkeyPatch, when: str
) -> None:
    """Not what OpenVINO, or the system, makes of a file that is not there."""

    def removed(*given: Any, **more: Any) -> Result:
        shutil.rmtree(entry.folder)
        raise TrialError("OpenVINO cannot run it: Could not open the file", "")

    if when == "before":
        shutil.rmtree(entry.folder)
    monkeypatch.setattr(tried, "run_trial", removed)
    with pytest.raises(ModelError, match="the files of the model are no longer in the host cache") as caught:
        use(entry)
    assert "again" in caught.value.hint


def test_a_success_is_remembered_until_a_limit_or_openvino_changes(trials: Trials, entry: Entry) -> None:
    for _ in range(3):
        use(entry)
    assert trials.count == 1
    use(entry, {"max_inference_seconds": "5"})
    assert trials.count == 2
    use(entry, {"max_inference_seconds": "5"}, openvino="2")
    assert trials.count == 3


def test_another_processor_tries_again(trials: Trials, entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    """A data directory that moved kept the milliseconds of the processor that it came from."""
    use(entry)
    monkeypatch.setattr(tried, "processor", lambda: ["model name: another one"])
    use(entry)
    assert trials.count == 2


def test_what_an_inference_took_is_kept(trials: Trials, entry: Entry) -> None:
    assert cache.milliseconds_of(entry.folder) is None
    use(entry)
    assert cache.milliseconds_of(entry.folder) == 1.5
    Path(cache.trial_path(entry.folder)).write_text("[]")
    assert cache.milliseconds_of(entry.folder) is None


def test_a_failure_is_remembered_for_a_while(trials: Trials, entry: Entry) -> None:
    trials.error = BAD
    for _ in range(3):
        with pytest.raises(ModelError, match="one image took more than 30 s") as caught:
            use(entry)
        assert "--max-inference-seconds" in caught.value.hint
    assert trials.count == 1
    old = os.stat(cache.trial_path(entry.folder)).st_mtime - tried.FAILURE_SECONDS
    os.utime(cache.trial_path(entry.folder), (old, old))
    trials.error = None
    use(entry)
    assert trials.count == 2


def test_what_is_not_the_models_fault_is_not_remembered(trials: Trials, entry: Entry) -> None:
    trials.error = TrialError("no Python", lasting=False)
    for _ in range(2):
        with pytest.raises(ModelError, match="no Python"):
            use(entry)
    assert trials.count == 2


@pytest.mark.parametrize("found", [None, "2026.3.0.0"])
def test_lacking_tokenizers_are_not_remembered(
    trials: Trials, entry: Entry, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, found: str | None
) -> None:
    """Who installs what the hint says need not wait until a failure is forgotten."""
    version = "2026.4.1-20123-1a2b3c4d5e6"
    Path(entry.path("xml")).write_bytes(
        b'<net name="a"><layer type="StringTensorUnpack" version="extension"/></net>'
    )
    monkeypatch.setattr(tokenizers, "PACKAGE", "lacking_tokenizers")
    monkeypatch.syspath_prepend(str(tmp_path / "venv"))
    package(tmp_path / "venv", found)
    with pytest.raises(ModelError, match=f"openvino-tokenizers.* {found or 'not'}.* installed") as caught:
        use(entry, openvino=version)
    assert "pip install openvino-tokenizers==2026.4.1.*" in caught.value.hint
    assert socket.gethostname() not in str(caught.value.for_everybody())
    package(tmp_path / "venv", "2026.4.1.0")
    use(entry, openvino=version)
    assert trials.count == 1


def package(folder: Path, version: str | None) -> None:
    """Put a package of this version into the folder in place of another; none, where there is no version."""
    for old in folder.glob("*"):
        shutil.rmtree(old)
    folder.mkdir(exist_ok=True)
    if version is not None:
        (folder / "lacking_tokenizers").mkdir()
        (folder / "lacking_tokenizers" / "__init__.py").touch()
        about = folder / f"lacking_tokenizers-{version}.dist-info"
        about.mkdir()
        (about / "METADATA").write_text(
            f"Metadata-Version: 2.1\nName: lacking_tokenizers\nVersion: {version}\n"
        )
    importlib.invalidate_caches()


def test_a_cancel_is_remembered_by_nobody(trials: Trials, entry: Entry) -> None:
    trials.error = AbandonedError()
    with pytest.raises(ModelError) as caught:
        use(entry)
    assert caught.value.sqlstate == "57014"
    assert not os.path.exists(cache.trial_path(entry.folder))


def test_who_waits_for_another_process_hears_a_cancel(
    trials: Trials, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    with tried._one_at_a_time(entry):
        monkeypatch.setattr(interrupts, "cancelled", lambda: True)
        with pytest.raises(ModelError, match="cancelled"):
            use(entry)
    assert trials.count == 0


def test_of_many_one_tries(trials: Trials, entry: Entry) -> None:
    failures: list[Exception] = []

    def one() -> None:
        try:
            use(entry)
        except Exception as err:
            failures.append(err)

    threads = [threading.Thread(target=one) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (failures, trials.count) == ([], 1)


def test_a_full_disk_stops_nobody_and_leaves_no_file(
    trials: Trials, entry: Entry, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*given: Any, **more: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "rename", full)
    for _ in range(2):
        use(entry)
    assert trials.count == 2
    assert sorted(os.listdir(entry.folder)) == ["model.bin", "model.xml", "trial.lock"]


SOUND: dict[str, Any] = {
    "asked": [], "error": "", "setting": "", "milliseconds": 1.5, "batch_milliseconds": None,
    "compile_milliseconds": 2.0, "by_threads": {"2": 1.0}, "busy": False,
}  # fmt: skip
SPOILT = [
    {"error": 1}, {"milliseconds": "fast"}, {"milliseconds": float("nan")}, {"batch_milliseconds": []},
    {"by_threads": [1]}, {"by_threads": {"two": 1}}, {"by_threads": {"2": "x"}}, {"milliseconds": -1},
]  # fmt: skip


def test_a_note_of_other_types_counts_for_nothing(entry: Entry) -> None:
    """The host of a model can write it: it is no other's word."""
    Path(cache.trial_path(entry.folder)).write_text(json.dumps(SOUND))
    assert cache.milliseconds_of(entry.folder) == 1.5
    for change in SPOILT:
        Path(cache.trial_path(entry.folder)).write_text(json.dumps({**SOUND, **change}))
        assert cache.read_trial(entry.folder) == ({}, 0.0), change


@pytest.mark.parametrize("text", ["", "[]", "{", json.dumps({"asked": ["1", "f32", *Limits()]})])
def test_a_spoilt_note_counts_for_nothing(trials: Trials, entry: Entry, text: str) -> None:
    Path(cache.trial_path(entry.folder)).write_text(text)
    use(entry)
    assert trials.count == 1


TAKEN_OVER = """
import os, signal, socket, subprocess
entry, secret = %r
acts = {
    "reads": lambda: open(secret).read(),
    "reads users": lambda: open("/etc/passwd").read(),
    "reads of its starter": lambda: open("/proc/%%d/cmdline" %% os.getppid()).read(),
    "writes": lambda: open(secret, "w"),
    "writes the outcome of its own trial": lambda: open(entry + "/trial.json", "w"),
    "writes another model": lambda: open(entry + "/model.xml", "w"),
    "connects": lambda: socket.socket(socket.AF_UNIX),
    "starts a program": lambda: subprocess.run(["/bin/true"]),
    "starts a process": os.fork,
    "ends its starter": lambda: os.kill(os.getppid(), 0),
    "reads the libraries": lambda: open(os.__file__).read(),
    "reads its model": lambda: open(entry + "/model.xml").read(),
}
did = []
for name, act in acts.items():
    try:
        act()
    except PermissionError:
        continue
    did.append(name)
raise RuntimeError(", ".join(did))
"""


@pytest.mark.skipif(
    not (sandbox.landlock_version() and sandbox.has_seccomp()),
    reason="this kernel has no Landlock, or no filter of system calls",
)
def test_a_model_that_takes_over_its_trial_reaches_nothing(
    entry: Entry, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that does what hostile code in a model would do. A backend's trial had all rights of the server."""
    secret, library = tmp_path / "PG_VERSION", tmp_path / "packages"
    secret.write_text("15")
    library.mkdir()
    (library / "openvino.py").write_text(TAKEN_OVER % ((entry.folder, str(secret)),))
    monkeypatch.syspath_prepend(library)
    with pytest.raises(ModelError) as caught:
        use(entry)
    assert caught.value.message.endswith("OpenVINO cannot run it: reads the libraries, reads its model")
    assert secret.read_text() == "15"
