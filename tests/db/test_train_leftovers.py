"""What a command that is interrupted or killed leaves behind: no process, and so no port; no folder of images."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from digit_tables import digit_table

pytestmark = pytest.mark.wide

pytest.importorskip("optuna")

LONG = bool(os.environ.get("LONG"))
MARK = "DBINFER_TEST_MARK"  # in the environment of all processes of a command, whoever starts them
QUERY = "SELECT img, label, id FROM left_over"
WITHIN = 150  # seconds, for a loaded machine
TOGETHER = ["--ranks", "2", "--batch", "4", "--epochs", "100000", "--keep", "1"]
SEARCHING = ["tune", "--search", "lr=1e-4..1e-3:log", "--trials", "9999", "--workers", "2", "--epochs", "2"]
COMMANDS = {
    "horovod-mpi": ["train", "--launcher", "mpi", *TOGETHER],
    "horovod-gloo": ["train", "--launcher", "gloo", *TOGETHER],
    "alone": ["train", *TOGETHER, "--ranks", "1"],
    **{
        name: ["train", "--strategy", name, "--set", "dropout=0", "--device", "cpu", *TOGETHER]
        for name in ("mirrored", "central", "downpour", "sandblaster", "split")
    },
    "tune": SEARCHING,
    "hop": [*SEARCHING, "--hop"],
}
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGKILL)


@pytest.fixture(scope="module")
def images(dsn: str) -> str:
    return digit_table(dsn, "left_over", 80)


@dataclass
class Command:
    """A running command, and where it leaves what."""

    process: subprocess.Popen[bytes]
    mark: str
    out: Path
    temporary: Path
    log: Path

    def processes(self) -> list[str]:
        """Return pid and words of each process that has the mark, whoever its parent is now."""
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):
                if f"{MARK}={self.mark}".encode() in (path / "environ").read_bytes():
                    words = (path / "cmdline").read_bytes().replace(b"\0", b" ").decode()
                    found.append(f"{path.name} {words[-120:]}")
        return found

    def has_trained(self) -> bool:
        """Return whether there is a checkpoint of an epoch, or a trial has ended."""
        patterns = ("checkpoint-*/checkpoint.json", "trial-*/manifest.json")
        return any(any(self.out.glob(pattern)) for pattern in patterns)

    def wait(self, what: str, until: Callable[[], object], seconds: float = WITHIN) -> None:
        deadline = time.monotonic() + seconds
        while not until():
            told = self.log.read_text()[-2000:]
            assert time.monotonic() < deadline, f"{what}: {self.processes()} {told}"
            time.sleep(0.1)


@pytest.fixture
def command(request: pytest.FixtureRequest, images: str, tmp_path: Path) -> Iterator[Command]:
    """Start a command in a session of its own, as a terminal does."""
    verb, *words = COMMANDS[request.param]
    out, temporary, log = tmp_path / "run", tmp_path / "tmp", tmp_path / "log"
    temporary.mkdir()
    mark = uuid.uuid4().hex
    if verb == "tune":
        words += ["--study", mark]
    words += ["--data", QUERY, "--out", str(out), "--dsn", images, "--val-fraction", "0.2"]
    environment = {**os.environ, MARK: mark, "TMPDIR": str(temporary)}
    program = "from dbinfer.cli.app import main; main()"
    with log.open("w") as output:
        process = subprocess.Popen(
            [sys.executable, "-c", program, verb, "digits", *words],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    running = Command(process, mark, out, temporary, log)
    yield running
    for one in running.processes():
        with suppress(OSError):
            os.kill(int(one.split()[0]), signal.SIGKILL)
    process.wait()


MOMENTS: dict[str, Callable[[Command], object]] = {
    "starting": lambda command: len(command.processes()) > 2 or command.has_trained(),
    "training": lambda command: command.has_trained(),
}
CASES = [(name, how, moment) for moment in MOMENTS for name in COMMANDS for how in SIGNALS]


@pytest.mark.parametrize(
    ("command", "how", "moment"),
    CASES if LONG else [("horovod-gloo", signal.SIGKILL, "training")],
    indirect=["command"],
    ids=lambda value: getattr(value, "name", value),
)
def test_nothing_stays(command: Command, how: signal.Signals, moment: str) -> None:
    command.wait(moment, lambda: MOMENTS[moment](command))
    # Ctrl-C reaches all processes of the terminal, the others the command alone
    os.killpg(command.process.pid, how) if how == signal.SIGINT else command.process.send_signal(how)
    started = time.monotonic()
    command.process.wait(WITHIN)
    command.wait("the end", lambda: not command.processes())
    seconds = time.monotonic() - started
    print(f"all gone after {seconds:.1f} s, exit status {command.process.returncode}")
    # TensorFlow's own, which it removes only when Python ends by itself
    left = [path.name for path in command.temporary.iterdir() if "__autograph_generated" not in path.name]
    assert left == []
    assert "Traceback" not in command.log.read_text()
