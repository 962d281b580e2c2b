"""What a worker and a loader can really do once they have shut themselves in: tried, each in a process of its own."""

from __future__ import annotations

import ctypes
import faulthandler
import fcntl
import mmap
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models
from engine_processes import threads

from dbinfer_udf.engine import client, loader, worker
from dbinfer_udf.host import sandbox

pytestmark = pytest.mark.skipif(not sandbox.landlock_version(), reason="this kernel has no Landlock")


def shut_in(prepare: Callable[[], Any], act: Callable[[], Any]) -> str:
    """Do something in a process that has shut itself in; return what came of it."""
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        text = "it died"
        try:
            sandbox.no_new_privileges()
            prepare()
            text = repr(act())
        except BaseException as err:
            text = type(err).__name__
        finally:
            os.write(into, text.encode())
            os._exit(0)
    os.close(into)
    with os.fdopen(out) as said:
        text = said.read()
    os.waitpid(pid, 0)
    return text


def read_library() -> int:
    return len(Path(os.__file__).read_bytes()) > 0


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A data directory with a cache and one entry in it."""
    (tmp_path / "cache" / "entry").mkdir(parents=True)
    (tmp_path / "cache" / "other").mkdir()
    for path in ("PG_VERSION", "cache/entry/model.xml", "cache/other/model.xml"):
        (tmp_path / path).write_text("secret")
    return tmp_path


def in_host(data: Path, act: Callable[[], Any]) -> str:
    def prepare() -> None:
        loader.shut_in_loader(str(data / "cache" / "entry"), {})
        sandbox.forbid()

    return shut_in(prepare, act)


def test_a_host_reads_libraries_and_its_own_entry_and_nothing_else(data: Path) -> None:
    entry = data / "cache" / "entry"
    assert in_host(data, read_library) == "True"
    assert in_host(data, (entry / "model.xml").read_text) == "'secret'"
    assert in_host(data, lambda: (entry / "blob").write_text("x")) == "1"
    for path in ("PG_VERSION", "cache/other/model.xml"):
        assert in_host(data, (data / path).read_text) == "PermissionError"
    assert in_host(data, lambda: os.listdir(data)) == "PermissionError"
    assert in_host(data, lambda: os.unlink(data / "PG_VERSION")) == "PermissionError"
    assert in_host(data, lambda: (data / "new").write_text("x")) == "PermissionError"
    # a link in the entry leads nowhere
    (entry / "link").symlink_to(data / "PG_VERSION")
    assert in_host(data, (entry / "link").read_text) == "PermissionError"


def test_a_host_has_no_network_and_starts_only_a_python(data: Path) -> None:
    assert in_host(data, lambda: socket.socket(socket.AF_INET)) == "PermissionError"
    assert in_host(data, lambda: socket.socket(socket.AF_UNIX)) == "PermissionError"
    command = [sys.executable, "-I", "-c", f"print(open({str(data / 'PG_VERSION')!r}).read())"]
    # what it starts is as shut in as itself
    assert in_host(data, lambda: subprocess.run(command, check=False, capture_output=True).returncode) == "1"
    assert in_host(data, lambda: subprocess.run(["/bin/cat", "/etc/passwd"], check=True)) == "PermissionError"


def test_a_path_above_the_cache_is_never_opened(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path, str(data), "/"])
    assert in_host(data, (data / "PG_VERSION").read_text) == "PermissionError"


FORBIDDEN: dict[str, Callable[[], Any]] = {
    "a file": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "a library": read_library,
    "a new file": lambda: os.open("/tmp/dbinfer-new", os.O_CREAT | os.O_WRONLY),
    "a socket": lambda: socket.socket(socket.AF_UNIX),
    "the network": lambda: socket.socket(socket.AF_INET),
    "a program": lambda: os.execv("/bin/true", ["true"]),
    "a process": os.fork,
    "a signal to its parent": lambda: os.kill(os.getppid(), signal.SIGTERM),
    "a debugger": lambda: sandbox.syscall(101, 16, os.getppid(), 0, 0),
    "another's memory": lambda: sandbox.syscall(310, os.getppid(), None, 0, None, 0, 0),
    "another root": lambda: os.chroot("/tmp"),
    "a link": lambda: os.symlink("/etc/passwd", "/tmp/dbinfer-link"),
    "another's cores": lambda: os.sched_setaffinity(os.getppid(), {0}),
    "another's semaphore": lambda: sandbox.syscall(65, 0, b"\0" * 6, 1),
    "a removal": lambda: os.unlink("/tmp"),
    # each of these makes the kernel send a signal of one's choice to any process of the same user
    "an owner of its signals": lambda: fcntl.fcntl(0, fcntl.F_SETOWN, os.getppid()),
    "another owner of its signals": lambda: fcntl.fcntl(0, 15, b"\0" * 8),  # F_SETOWN_EX
    "a signal for what comes": lambda: fcntl.fcntl(0, fcntl.F_SETSIG, signal.SIGSTOP),
    "signals for what comes": lambda: fcntl.fcntl(
        0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_ASYNC
    ),
    "a notice of folders": lambda: fcntl.fcntl(0, fcntl.F_NOTIFY, fcntl.DN_CREATE),
    "a lease": lambda: fcntl.fcntl(0, fcntl.F_SETLEASE, fcntl.F_RDLCK),
    "a listener that does not wait": lambda: os.set_blocking(0, False),
    # what RLIMIT_DATA does not count
    "shared memory": lambda: mmap.mmap(-1, 1 << 20, mmap.MAP_SHARED | mmap.MAP_ANONYMOUS),
    "memory that grows like a stack": lambda: mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x100),
    "huge pages": lambda: mapped(mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | 0x40000),
    "a thread": lambda: sandbox.syscall(
        56, 0x50F00, None, None, None, None
    ),  # as pthread_create asks for one
    "an option of the listener": lambda: set_option(socket.SO_RCVBUF),
    "credentials of its own": lambda: set_option(socket.SO_PASSCRED),
    "a barrier on all cores": lambda: sandbox.syscall(324, 2, 0, 0),
}
PAIR = socket.socketpair()


def mapped(flags: int) -> int:
    """Map a page with flags that the module mmap would not take."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    found = libc.mmap(None, ctypes.c_size_t(4096), 3, flags, -1, ctypes.c_long(0))
    if found == ctypes.c_void_p(-1).value:
        raise OSError(ctypes.get_errno(), "mmap")
    return int(found)


def set_option(option: int) -> None:
    PAIR[0].setsockopt(socket.SOL_SOCKET, option, 1)


FORBIDDEN |= {
    "the end of the listener": lambda: PAIR[0].shutdown(socket.SHUT_RDWR),
    "a descriptor in a message": lambda: socket.send_fds(PAIR[0], [b"x"], [0]),
    "a descriptor from a message": lambda: socket.recv_fds(PAIR[1], 1, 1),
}


def test_a_worker_can_do_nothing_but_compute_and_answer(subtests: pytest.Subtests) -> None:
    for what in FORBIDDEN:
        with subtests.test(what=what):
            assert shut_in(lambda: worker.shut_in(-1), FORBIDDEN[what]) == "PermissionError"


@pytest.mark.parametrize("what", [name for name in FORBIDDEN if name.startswith("a ") and "file" in name])
def test_either_lock_alone_keeps_files_closed(what: str) -> None:
    assert shut_in(sandbox.restrict_files, FORBIDDEN[what]) == "PermissionError"
    assert shut_in(lambda: sandbox.restrict_calls(os.getpid()), FORBIDDEN[what]) == "PermissionError"


WITHOUT_STRICT = (
    "a socket", "the network", "a program", "a process", "a signal to its parent", "a debugger", "another's memory",
    "another's cores", "an owner of its signals", "another owner of its signals", "a signal for what comes", "a lease",
)  # fmt: skip


@pytest.mark.wide
def test_a_worker_whose_network_does_not_run_under_the_strict_filter_has_that_of_its_trial(
    subtests: pytest.Subtests,
) -> None:
    """It had none: a hostile model had only to fail under the others to signal whom it likes."""
    for what in WITHOUT_STRICT:
        with subtests.test(what=what):
            act = FORBIDDEN[what]
            assert shut_in(lambda: worker.shut_in(-1, worker.FILTERS[-1]), act) in (
                "PermissionError",
                "OSError",
            )


def test_a_worker_that_was_rehearsed_cannot_choose_its_filter() -> None:
    said = {"files": True, "seccomp": True}
    for filters, taken in ((worker.NO_THREADS, True), ("no filter", False), (None, False), ([], False)):
        found = loader._in_fork(lambda: dict(said, filter=filters), 1.0)  # noqa: B023
        assert (found is not None) == taken
    assert loader._in_fork(lambda: [1], 1.0) is None  # type: ignore[arg-type, return-value]


def test_what_a_worker_that_compiles_for_itself_says_is_checked() -> None:
    for said in (
        "",
        "[]",
        "x",
        '{"facts": 1}',
        '{"facts": {"rows": "2", "sandbox": {}}}',
        '{"facts": {"rows": 2}}',
    ):
        assert loader._first_found(said) == {}
    assert loader._first_found('{"facts": {"rows": 2, "sandbox": {}}}') == {
        "facts": {"rows": 2, "sandbox": {}}
    }


@pytest.mark.wide
def test_an_engine_serves_a_network_that_runs_under_the_widest_filter_alone(tmp_path: Path) -> None:
    modules = engine_models.content().modules
    strict = "    found = worker.shut_in("
    assert strict in modules["engine.loader"]
    source = modules["engine.loader"].replace(
        strict, "    if filters != worker.FILTERS[-1]:\n        os._exit(1)\n" + strict
    )
    (tmp_path / "engine").mkdir(mode=0o700)
    engine = engine_models.engine(tmp_path / "engine")
    engine.modules, engine.digest = lambda: {**modules, "engine.loader": source}, "c" * 64
    spec, entry = engine_models.ticket(tiny_models.constant(tmp_path, 4), tmp_path / "cache")
    try:
        model = engine.open(spec, entry.folder, 1)
        image = tiny_models.file(tiny_models.picture(1, 2, 3))
        assert model.ask("predict", image, None) == "{4.0,4.0,4.0}"
        ((facts,),) = [one["models"] for one in client.status(engine.settings)]
        assert facts["sandbox"]["seccomp"] is True
        assert "a wider filter of system calls" in facts["sandbox"]["problem"]
    finally:
        client.stop(engine.settings)


def test_a_worker_can_compute_and_answer() -> None:
    def act() -> bytes:
        ours.sendall(b"y" * 10)
        os.sched_setaffinity(0, os.sched_getaffinity(0))
        return bytes(bytearray(1 << 24)[:2])

    ours, theirs = socket.socketpair()
    assert shut_in(lambda: worker.shut_in(-1), act) == repr(b"\0\0")
    assert theirs.recv(100) == b"y" * 10
    ours.close()
    theirs.close()


def test_an_abort_of_a_worker_is_an_abort() -> None:
    pid = os.fork()
    if pid == 0:
        faulthandler.disable()
        sandbox.no_new_privileges()
        worker.shut_in(-1)
        os.abort()
    assert os.WTERMSIG(os.waitpid(pid, 0)[1]) == signal.SIGABRT


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[client.Engine]:
    folder = tmp_path_factory.mktemp("engine")
    folder.chmod(0o700)
    made = engine_models.engine(folder)
    yield made
    client.stop(made.settings)


def test_the_engine_says_and_has_what_was_granted(engine: client.Engine, tmp_path: Path) -> None:
    spec, entry = engine_models.ticket(tiny_models.convolution(tmp_path), tmp_path / "cache")
    model = engine.open(spec, entry.folder, 1)
    img = tiny_models.file(tiny_models.picture(1, 2, 3))
    assert model.ask("predict", img, None)
    (facts,) = client.status(engine.settings)[0]["models"]
    assert facts["sandbox"] == {
        **{"files": True, "seccomp": True, "filter": worker.filters()[0]},
        "landlock": sandbox.landlock_version(),
    }
    found = engine_models.processes(engine)
    for name, filters in (("worker", "2"), ("loader", "2"), ("zygote", "2"), ("engine", "0")):
        for pid in found[name]:
            lines = Path(f"/proc/{pid}/status").read_text().splitlines()
            values = dict(line.split(":\t") for line in lines if ":\t" in line)
            assert (name, values["NoNewPrivs"], values["Seccomp"]) == (name, "1", filters)
    # nothing but its listener and the log is open in a worker
    (first, *_) = found["worker"]
    targets = sorted(os.readlink(path) for path in Path(f"/proc/{first}/fd").iterdir())
    assert [target.partition(":")[0] for target in targets] == ["/dev/null", "pipe", "pipe", "socket"]


def test_the_threads_of_a_worker_are_as_shut_in_as_itself(engine: client.Engine, tmp_path: Path) -> None:
    """Whoever has taken over one thread has all: a worker that compiles for itself has threads before it is shut in."""
    spec, entry = engine_models.ticket(
        tiny_models.convolution(tmp_path, "wide"), tmp_path / "cache", threads="2"
    )
    model = engine.open(spec, entry.folder, 2)
    assert model.ask("predict", tiny_models.file(tiny_models.picture(1, 2, 3)), None)
    (facts,) = (one for one in client.status(engine.settings)[0]["models"] if one["model"] == "wide")
    assert (facts["sandbox"]["files"], facts["sandbox"]["seccomp"]) == (True, True)
    most = 0
    for pid in engine_models.processes(engine)["worker"]:
        found = threads(pid).values()
        # the zygote's and the worker's own
        assert {facts["Seccomp_filters"] for facts in found} == {"2"}
        most = max(most, len(found))
    assert most > 1
