"""Model files of strangers: what runs when they are opened reaches nothing, and what the process says is checked."""

from __future__ import annotations

import fcntl
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from convert_models import save_onnx
from hostile_models import save_hostile
from quantize_models import classifier, pictures
from test_engine_sandbox import shut_in
from variants import wide

from dbinfer.base import apart
from dbinfer.base.errors import ConvertError, DbinferError, ModelFileError
from dbinfer.base.progress import Progress, silent
from dbinfer.convert import ConvertOptions, ConvertReport, convert
from dbinfer.convert.quantize import QuantizeOptions, quantize_images
from dbinfer.models.prepare import understand
from dbinfer_udf.host import sandbox

GUARDED = pytest.mark.skipif(
    not (sandbox.landlock_version() and sandbox.has_seccomp()),
    reason="this kernel has no Landlock, or no filter of system calls",
)
STATED: dict[str, Any] = {"task": "classification", "activation": "none", "scale": [255.0]}


def converted(source: Path) -> ConvertReport:
    return convert(source, source.with_suffix(".xml"), ConvertOptions(values=STATED))


@pytest.fixture
def home_file() -> Any:
    """A file in the user's home."""
    path = Path.home() / f".dbinfer-test-{os.getpid()}"
    path.write_text("a secret")
    yield path
    path.unlink()


@pytest.mark.wide
@GUARDED
def test_an_initialiser_writes_no_file(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    source = save_hostile(tmp_path / "net", lambda tf: tf.io.write_file(str(victim), "written"))
    report = converted(source)
    assert not victim.exists()
    assert "cannot run it (PermissionDeniedError)" in report.check.reason
    assert {path.name for path in tmp_path.iterdir()} == {"net", "net.xml", "net.bin"}


@GUARDED
@pytest.mark.parametrize("in_graph", [False, *wide(True)])
def test_a_model_reads_nothing_of_the_machine(tmp_path: Path, home_file: Path, in_graph: bool) -> None:
    path = str(home_file) if in_graph else "/etc/hostname"

    def read(tf: Any) -> None:
        tf.debugging.assert_less(tf.strings.length(tf.io.read_file(path)), 10**6)

    check = converted(save_hostile(tmp_path / "net", read, in_graph)).check
    assert not check.done
    assert "PermissionDenied" in check.reason or "Permission denied" in check.reason
    assert "\n" not in check.reason


@GUARDED
@pytest.mark.wide
def test_a_graph_that_writes_is_refused_in_a_sentence(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    source = save_hostile(tmp_path / "net", lambda tf: tf.io.write_file(str(victim), "written"), True)
    with pytest.raises(ConvertError, match=r"OpenVINO lacks operations of .*: WriteFile"):
        converted(source)
    assert not victim.exists()


@pytest.mark.parametrize("name", ["secret", *wide("net.onnx.data")])
def test_weights_in_another_file_have_the_name_of_the_model(tmp_path: Path, name: str) -> None:
    """An ONNX file may name any file of its folder as its weights."""
    import onnx

    path = save_onnx(tmp_path / "net.onnx")
    onnx.save(onnx.load(path), path, save_as_external_data=True, location=name, size_threshold=0)
    options = ConvertOptions(values=dict(STATED, activation="softmax"))
    if name == "secret":
        with pytest.raises(
            ConvertError, match="has weights in secret, which is not there or does not begin with"
        ):
            convert(path, tmp_path / "net.xml", options)
    else:
        assert convert(path, tmp_path / "net.xml", options).check.done


@GUARDED
@pytest.mark.wide
def test_a_model_that_wants_a_network_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """TensorFlow's service of data connects, and asks again and again where it cannot."""
    monkeypatch.setattr(apart, "IDLE_SECONDS", 30.0)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"

        def connect(tf: Any) -> None:
            data = tf.data.Dataset.range(1)._variant_tensor
            options = {"dataset": data, "address": address, "protocol": "grpc", "external_state_policy": 0}
            registered = tf.raw_ops.RegisterDatasetV2(**options)
            tf.debugging.assert_less(tf.strings.length(registered), 10**6)

        with pytest.raises(ModelFileError, match="did nothing for 30 s") as caught:
            converted(save_hostile(tmp_path / "net", connect))
        assert "\n" not in caught.value.message
        listener.setblocking(False)
        with pytest.raises(BlockingIOError):
            listener.accept()


LISTENER = socket.create_server(("127.0.0.1", 0))
REFUSED: dict[str, Callable[[], Any]] = {
    "a connection": lambda: socket.create_connection(LISTENER.getsockname()),
    "a socket of this machine": lambda: socket.socket(socket.AF_UNIX),
    "a message by the network": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM),
    "a signal": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "a question for a process": lambda: os.kill(os.getppid(), 0),
    "a signal to all": lambda: os.kill(-1, signal.SIGTERM),
    "a signal to its group": lambda: os.killpg(0, signal.SIGTERM),
    "an owner of signals": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()),
    "letters of a terminal": lambda: fcntl.ioctl(0, 0x5412, b"x"),
    "a limit of another": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
    "another's priority": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
    "a process": os.fork,
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a file": lambda: Path("/etc/hostname").read_text(),
    "users": lambda: Path("/etc/passwd").read_text(),
    "a command line": lambda: Path(f"/proc/{os.getppid()}/cmdline").read_text(),
    "a new file": lambda: Path("/tmp/dbinfer-new").write_text("x"),
    "rights of a file": lambda: os.chmod(__file__, 0o777),
    "times of a file": lambda: os.utime(__file__),
    "an owner of a file": lambda: os.chown(__file__, os.getuid(), os.getgid()),
    "the end of a file": lambda: os.truncate(__file__, 0),
    "an attribute of a file": lambda: os.setxattr(__file__, "user.x", b"y"),
    "a folder": lambda: os.listdir(Path.home()),
    "a removal": lambda: os.unlink(__file__),
    "a name of the machine": lambda: socket.sethostname("x"),
    "another root": lambda: os.chroot("/tmp"),
}


@GUARDED
@pytest.mark.parametrize("what", REFUSED)
def test_what_is_opened_apart_reaches_nothing(what: str, tmp_path: Path) -> None:
    def prepare() -> None:
        assert sandbox.shut_in(apart.libraries(), [str(tmp_path)]) == []

    assert shut_in(prepare, REFUSED[what]) == "PermissionError"


@GUARDED
def test_it_computes_and_reads_and_writes_what_it_may(tmp_path: Path) -> None:
    (tmp_path / "source").write_text("model")
    (tmp_path / "folder").mkdir()

    def act() -> str:
        (tmp_path / "folder" / "made").write_text((tmp_path / "source").read_text())
        thread = threading.Thread(target=socket.socketpair)
        thread.start()
        thread.join()
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        return (tmp_path / "folder" / "made").read_text() + str(len(Path(os.__file__).read_bytes()) > 0)

    read = [*apart.libraries(), str(tmp_path / "source")]
    assert shut_in(lambda: sandbox.shut_in(read, [str(tmp_path / "folder")]), act) == "'modelTrue'"


IN_PARENT = """
import sys
from pathlib import Path
sys.modules.update(dict.fromkeys(("tensorflow", "keras", "onnx", "onnxruntime", "h5py", "nncf", "openvino")))
import dbinfer
from dbinfer.convert.quantize import quantize_images
from dbinfer.models.prepare import understand
folder = Path(sys.argv[1])
report = dbinfer.convert(folder / "net.onnx", folder / "out.xml", dbinfer.ConvertOptions(values={values}))
print(report.check.done, report.manifest.task, report.inputs[0].shape)
known, prepared = understand(folder / "out.xml", {{}}, None, dbinfer.silent)
print(known.manifest.name, prepared.output, len(prepared.bin) > 0)
images = [path.read_bytes() for path in sorted(folder.glob("*.png"))]
options = dbinfer.QuantizeOptions(subset=len(images))
print(quantize_images(folder / "net.xml", folder / "int8.xml", images, [], options).agreement)
"""


@pytest.mark.wide
def test_no_library_opens_a_foreign_file_in_the_process_of_the_client(tmp_path: Path) -> None:
    pytest.importorskip("nncf")
    save_onnx(tmp_path / "net.onnx")
    classifier(tmp_path)
    for number, image in enumerate(pictures(6)[0]):
        (tmp_path / f"{number}.png").write_bytes(image)
    program = IN_PARENT.format(values=dict(STATED, activation="softmax"))
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.stdout.splitlines() == ["True classification (1, 3, 16, 16)", "net (1, 5) True", "1.0"], (
        done.stderr
    )


def saying(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Let the process say and do something else."""
    begin = "import json, os, sys, time\ncall = json.loads(sys.stdin.buffer.read())\n"
    say = "def say(text):\n    os.write(call['out'], text.encode() + b'\\n')\n"
    monkeypatch.setattr(apart, "PROGRAM", begin + say + program)


SAID = {
    "nothing": ("", "failed: exit status 0"),
    "a crash": ("os.abort()", "was ended by SIGABRT"),
    "no JSON": ("say('hello')", "gave a malformed answer"),
    "no message": ("say('[1]')", "gave a malformed answer"),
    "an unknown message": ("say('{\"run\": 1}')", "gave a malformed answer"),
    "brackets without end": ("say('[' * 100_000)", "gave a malformed answer"),
    "an error of nobody": ('say(\'{"error": ["SystemExit", "a", "", []]}\')', "gave a malformed answer"),
    "an error that is none": ('say(\'{"error": ["Sequence", "a", "", []]}\')', "gave a malformed answer"),
    "a step that is none": ('say(\'{"progress": {"step": 5}}\')', "gave a malformed answer"),
    "messages without end": ("while True: say('{\"lacking\": []}')", "gave a malformed answer"),
    "a line without end": ("while True: os.write(call['out'], b'x' * 65536)", "answered with more than"),
    "a report of something else": ('say(\'{"result": {"size": 1}}\')', "report that makes no sense"),
    "an end that is none": ("os.close(call['out']); time.sleep(600)", "was ended by SIGKILL"),
    "a wait": ("time.sleep(600)", "did nothing for 3 s"),
    "silence": ("time.sleep(600)", "took more than 2 s"),
    "much else": ("while True: os.write(1, b'x' * 65536)", "took more than 2 s"),
}

SLOW = ("a wait", "an end that is none", "a line without end", "silence", "much else")


@pytest.mark.parametrize("what", [*[what for what in SAID if what not in SLOW], *wide(*SLOW)])
def test_what_the_process_says_is_not_believed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    program, message = SAID[what]
    saying(monkeypatch, program)
    # as much as a busy machine may need where it is not waited for
    seconds = 2.0 if "2 s" in message else 120.0
    job = apart.Job("os:getcwd", {}, tmp_path / "net.onnx", tmp_path, [], seconds=seconds)
    monkeypatch.setattr(apart, "MOST_BYTES", 1 << 20)
    monkeypatch.setattr(apart, "END_SECONDS", 1.0)
    monkeypatch.setattr(apart, "IDLE_SECONDS", 3.0 if what == "a wait" else 600.0)
    monkeypatch.setattr(apart, "Job", lambda **rest: job)
    with pytest.raises(ModelFileError, match=message) as caught:
        converted(save_onnx(tmp_path / "net.onnx"))
    assert "\n" not in caught.value.message
    assert not (tmp_path / "net.xml").exists()


REPORT = """
import pathlib
report = json.loads(%r)
folder = pathlib.Path(call["folder"])
%s
say(json.dumps({"result": report}))
"""
FORGED = {
    "a link": "os.symlink('/etc/hostname', folder / 'net.xml'); (folder / 'net.bin').write_text('x')",
    "another's file": "os.link(%r, folder / 'net.xml'); (folder / 'net.bin').write_text('x')",
    "a folder": "(folder / 'net.xml').mkdir()",
    "nothing": "",
    "a key that is none": "report['assumed'] = ['__class__']",
    "a number for a text": "report['check']['reason'] = 7",
    "no manifest": "report['manifest'] = {'task': 'guessing'}",
}


@pytest.mark.wide
@pytest.mark.parametrize("what", FORGED)
def test_what_the_process_makes_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    source = save_onnx(tmp_path / "net.onnx")
    report = convert(source, tmp_path / "true.xml", ConvertOptions(values=dict(STATED, activation="softmax")))
    (tmp_path / "mine").write_text("mine")
    forged = FORGED[what]
    forged = forged % str(tmp_path / "mine") if "%r" in forged else forged
    saying(monkeypatch, REPORT % (json.dumps(report.to_dict()), forged))
    with pytest.raises(ModelFileError, match=r"has not written a file|makes no sense"):
        converted(source)
    assert not (tmp_path / "net.xml").exists()
    assert (tmp_path / "mine").read_text() == "mine"


def test_what_it_says_controls_no_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saying(
        monkeypatch,
        r"""say(json.dumps({"progress": {"step": "a\x1b]0;title\x07", "done": 0, "total": None, "unit": "", "errors": 0,
                                     "note": "b\u202ec\x9b"}}))
say(json.dumps({"error": ["ConvertError", "no \x1b[2Jmodel", "do \r\x08this", ["\x1b"]]}))""",
    )
    heard: list[Progress] = []
    job = apart.Job("os:getcwd", {}, tmp_path / "net.onnx", tmp_path, [])
    with pytest.raises(ConvertError) as caught:
        apart.run(job, heard.append)
    assert (heard[0].step, heard[0].note) == (r"a\x1b]0;title\x07", r"b\u202ec\x9b")
    assert (caught.value.message, caught.value.hint) == (
        r"no \x1b[2Jmodel",
        r"do \x0d\x08this".replace("x0d", "r"),
    )
    assert caught.value.words == (r"\x1b",)


def test_a_missing_guard_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lame = """
from dbinfer_udf.host import sandbox
def refuse(*rest): raise OSError(38, "no Landlock")
sandbox.restrict_files = refuse
importlib.import_module("dbinfer.base.apart").child(call)
"""
    monkeypatch.setattr(apart, "PROGRAM", apart.PROGRAM.rpartition("importlib.")[0] + lame)
    monkeypatch.setattr(apart, "_guards_told", False)
    path = classifier(tmp_path)
    heard: list[Progress] = []
    for _ in range(2):
        assert understand(path, {}, None, heard.append)[1].output == (1, 3)
    assert [step.note for step in heard if step.note] == [
        "The kernel has no Landlock (docs/explanation/security.md)."
    ]


def test_an_error_of_libraries_is_a_sentence(tmp_path: Path) -> None:
    path = classifier(tmp_path)
    path.with_suffix(".bin").write_bytes(b"")
    with pytest.raises(DbinferError) as caught:
        understand(path, {}, None, silent)
    assert "Traceback" not in str(caught.value)
    assert "\n" not in caught.value.message


def test_an_interrupt_ends_the_process_and_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    saying(monkeypatch, "say(json.dumps({'lacking': []})); time.sleep(600)")
    pids: list[int] = []

    def interrupt(_: Progress) -> None:
        raise KeyboardInterrupt

    real = apart._started

    def started(*rest: Any) -> Any:
        process = real(*rest)
        pids.append(process.pid)
        return process

    monkeypatch.setattr(apart, "_started", started)
    source = save_onnx(tmp_path / "net.onnx")
    with pytest.raises(KeyboardInterrupt):
        convert(source, tmp_path / "net.xml", ConvertOptions(values=STATED), interrupt)
    assert [path.name for path in tmp_path.iterdir()] == ["net.onnx"]
    assert not Path(f"/proc/{pids[0]}").exists()


@pytest.mark.wide
def test_the_result_of_quantize_is_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    saying(monkeypatch, "say('{\"result\": []}')")
    with pytest.raises(ModelFileError, match="report that makes no sense"):
        quantize_images(
            classifier(tmp_path), tmp_path / "int8.xml", pictures(2)[0], [], QuantizeOptions(subset=2)
        )
    assert not (tmp_path / "int8.xml").exists()
