"""Opens a stranger's model file in a process of its own, which writes to one folder and reaches nothing else; tells
what this machine offers such processes.

TensorFlow does what a SavedModel says, and the libraries that read model files are written in C++. So a fresh Python
process gives up all rights except to read this file, the libraries and the kernel's figures, and then opens the file.
It answers in JSON, which is checked before it is used, and writes its files into that folder.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import select
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from pathlib import Path
from stat import S_ISREG
from typing import Any, NoReturn

from dbinfer.base import errors
from dbinfer.base.errors import DbinferError, ModelFileError, harmless
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.base.report import plain, restored
from dbinfer_udf.host import limits, sandbox

# -I: neither the environment nor the working directory decides what it imports. Our packages are imported at once:
# afterwards their own folders are open, and not those in which they lie
PROGRAM = """
import importlib, json, sys
call = json.loads(sys.stdin.buffer.read())
sys.path[:] = call["paths"]
for package in call["packages"]:
    importlib.import_module(package)
importlib.import_module("dbinfer.base.apart").child(call)
"""
PACKAGES = ("dbinfer", "dbinfer_udf", "dbinfer_models")
SYSTEM = (*sandbox.SYSTEM, "/nix/store", "/gnu/store", "/usr/share/zoneinfo")
# Its settings, and the labels of ImageNet
KERAS = (("keras.json",), ("models", "imagenet_class_index.json"))
# What the environment says of languages and of computing; passwords are in other variables
ENVIRONMENT = ("PATH", "LANG", "TZ", "KERAS_BACKEND", "LD_LIBRARY_PATH")
ENVIRONMENTS = ("LC_", "TF_", "OV_", "ONEDNN_", "OPENCV_", "OMP_")
SECONDS, END_SECONDS, LOOK_SECONDS = 3600.0, 10.0, 1.0
# Without a second of work for so long, it waits for what it does not get: libraries ask for a network again and again
IDLE_SECONDS = 120.0
LEAST_MEMORY, LEAST_FILE = 4 << 30, 4 << 30
MOST_BYTES, MOST_MESSAGES, MOST_TEXT, NOISE = 32 << 20, 10_000, 4000, 2000

_guards_told = False


@dataclass(frozen=True)
class Job:
    """A function to run in a process of its own.

    Attributes:
        function: `module:name`; it gets the arguments and `progress`, and returns what `plain` makes JSON of.
        what: the file that is opened, for messages.
        folder: where it may write.
        read: files and folders that it may read besides the libraries.
        shown: what messages call the folder.
        seconds: that it may take.
    """

    function: str
    arguments: Mapping[str, Any]
    what: Path
    folder: Path
    read: Sequence[Path]
    shown: Path | None = None
    seconds: float = SECONDS


def run(job: Job, progress: OnProgress) -> Any:
    """Do a job in a process of its own; return its result as JSON values.

    Raises:
        DbinferError: what the function raised; ModelFileError if the process ended in another way.
    """
    out, theirs = os.pipe()
    try:
        process = _started(job, theirs)
        try:
            return _Listener(job, process, out, progress).result()
        finally:
            process.kill()
            process.wait()
            process.stdout.close()  # type: ignore[union-attr]
    finally:
        os.close(out)


def received(path: Path) -> Path:
    """Return a file that the process had to write.

    Raises:
        ModelFileError: it is no file of its own, for example a link to another's.
    """
    with contextlib.suppress(OSError):
        found = path.lstat()
        if S_ISREG(found.st_mode) and found.st_nlink == 1 and found.st_size:
            return path
    raise ModelFileError(f"the process that was to write {path.name} has not written a file")


def libraries() -> list[str]:
    """Return what a Python of this environment must read to import, without the folders of people."""
    home = os.path.realpath(os.path.expanduser("~"))
    found = [os.path.dirname(str(import_module(name).__file__)) for name in PACKAGES]
    paths = sysconfig.get_paths()
    found += [paths[name] for name in ("stdlib", "platstdlib", "purelib", "platlib")]
    for prefix in {sys.prefix, sys.base_prefix}:
        found += [os.path.join(prefix, name) for name in ("bin", "lib", "lib64")]
    # packages of the user and of Debian; an entry such as . or ~ is somebody's own folder
    found += [path for path in sys.path if os.path.basename(path) in ("site-packages", "dist-packages")]
    for name in ("PYTHONPATH", "LD_LIBRARY_PATH"):
        found += os.environ.get(name, "").split(os.pathsep)
    found += [os.path.join(_keras_home(), *names) for names in KERAS]
    return [
        *SYSTEM,
        *sandbox.KERNEL,
        *(path for path in dict.fromkeys(found) if path and not _holds(path, home)),
    ]


def _keras_home() -> str:
    return os.environ.get("KERAS_HOME") or os.path.expanduser("~/.keras")


def _holds(path: str, home: str) -> bool:
    return (home + "/").startswith(os.path.realpath(path).rstrip("/") + "/")


def child(call: dict[str, Any]) -> NoReturn:
    """Be that process."""
    out = os.fdopen(call["out"], "w", encoding="ascii")
    say = partial(_say, out)
    _bound(call)
    say(lacking=sandbox.shut_in(call["read"], [call["folder"]]))
    module, _, name = call["function"].partition(":")
    try:
        function = getattr(import_module(module), name)
        answer = {
            "result": plain(function(**call["arguments"], progress=lambda step: say(progress=plain(step))))
        }
    except DbinferError as err:
        kind = next(one.__name__ for one in type(err).__mro__ if hasattr(errors, one.__name__))
        answer = {"error": [kind, err.message, err.hint, list(err.words)]}
    except MemoryError:
        answer = {"failed": "it needs more memory than this machine has"}
    # whatever libraries raise for such a file: a sentence, as a traceback would be of no use to who has the file
    except BaseException as err:
        answer = {"failed": f"{type(err).__name__}: {err}"}
    say(**answer)
    # no library has the last word
    os._exit(0)


def _say(out: Any, **message: Any) -> None:
    out.write(json.dumps(message) + "\n")
    out.flush()


def _bound(call: dict[str, Any]) -> None:
    if sys.platform == "linux":
        sandbox.die_with(call["parent"])
        sandbox.more_likely_victim()
    for bound, wanted in (
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_DATA, call["memory"]),
        (resource.RLIMIT_FSIZE, call["file"]),
    ):
        hard = resource.getrlimit(bound)[1]
        most = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
        resource.setrlimit(bound, (most, most))


def _started(job: Job, out: int) -> subprocess.Popen[bytes]:
    size = sum(os.path.getsize(path) for path in job.read if os.path.isfile(path))
    call = {
        "paths": [path for path in sys.path if path],
        "packages": PACKAGES,
        "function": job.function,
        "arguments": plain(job.arguments),
        "read": [*libraries(), *map(str, job.read)],
        "folder": str(job.folder),
        "out": out,
        "parent": os.getpid(),
        "memory": max(LEAST_MEMORY, limits.memory_bytes()),
        "file": max(LEAST_FILE, 8 * size),
    }
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", PROGRAM],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            pass_fds=[out],
            env=_environment(job.folder),
            # Ctrl-C at the terminal ends the command, which then ends this; and it has no terminal
            start_new_session=True,
        )
    except OSError as err:
        raise ModelFileError(
            f"the Python that reads {job.what}, {sys.executable}, cannot be started: {err.strerror}"
        ) from err
    finally:
        os.close(out)
    # where it is dead already, its output says why
    with contextlib.suppress(BrokenPipeError), process.stdin as source:  # type: ignore[union-attr]
        source.write(json.dumps(call).encode())
    return process


def _environment(folder: Path) -> dict[str, str]:
    kept = {
        name: value
        for name, value in os.environ.items()
        if name in ENVIRONMENT or name.startswith(ENVIRONMENTS)
    }
    # devices are files, too, and closed
    return {
        **kept,
        "HOME": str(folder),
        "TMPDIR": str(folder),
        "KERAS_HOME": _keras_home(),
        "CUDA_VISIBLE_DEVICES": "-1",
        # numpy would start a thread for each core, which nothing here uses
        "OPENBLAS_NUM_THREADS": "1",
    }


class _Listener:
    """Hears what the process says, and ends the wait where that is too much or takes too long."""

    def __init__(self, job: Job, process: subprocess.Popen[bytes], out: int, progress: OnProgress) -> None:
        self._job, self._process, self._out, self._progress = job, process, out, progress
        self._noise = b""
        self._began = time.monotonic()
        self._worked = (self._began, 0.0)

    def result(self) -> Any:
        """Return the result; progress is passed on meanwhile."""
        for count, line in enumerate(self._lines()):
            try:
                ((kind, value),) = json.loads(line).items()
                said = {
                    "progress": self._progressed,
                    "lacking": self._lacking,
                    "error": self._error,
                    "failed": self._failed,
                    "result": plain,
                }[kind](value)
                if count > MOST_MESSAGES:
                    raise ValueError
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise ModelFileError(
                    f"the process that read {self._job.what} gave a malformed answer"
                ) from None
            if kind == "result":
                return said
            if isinstance(said, DbinferError):
                raise said
            self._progress(said)
        raise self._death()

    def _lines(self) -> Iterator[bytearray]:
        text = bytearray()
        noise: int = self._process.stdout.fileno()  # type: ignore[union-attr]
        open_pipes = {self._out, noise}
        while self._out in open_pipes:
            self._check_time()
            for pipe in select.select(list(open_pipes), [], [], LOOK_SECONDS)[0]:
                block = os.read(pipe, 1 << 16)
                if not block:
                    open_pipes.remove(pipe)
                if pipe == noise:
                    self._noise = (self._noise + block)[-NOISE:]
                    continue
                text += block
                *lines, text = text.split(b"\n") if b"\n" in block else [text]
                if len(text) > MOST_BYTES:
                    raise ModelFileError(
                        f"the process that read {self._job.what} answered with more than {MOST_BYTES} bytes"
                    )
                yield from lines

    def _check_time(self) -> None:
        now, seconds = time.monotonic(), _processor_seconds(self._process.pid)
        if now - self._began > self._job.seconds:
            raise ModelFileError(f"reading {self._job.what} took more than {self._job.seconds:.0f} s")
        before, worked = self._worked
        if seconds is None or seconds - worked > 1:
            self._worked = (now, seconds or 0.0)
        elif now - before > IDLE_SECONDS:
            raise ModelFileError(
                f"reading {self._job.what} was stopped, because it did nothing for {IDLE_SECONDS:.0f} s",
                "It may be waiting for a network or a file, which models do not get.",
            )

    def _text(self, value: Any) -> str:
        """Return a text as it may be shown: without what controls a terminal, with the name that people gave."""
        text = harmless(str(value)[:MOST_TEXT])
        shown = self._job.shown
        return text if shown is None else text.replace(str(self._job.folder), str(shown))

    def _failed(self, value: Any) -> DbinferError:
        lines = self._text(value).strip().splitlines()
        return ModelFileError(f"{self._job.what} cannot be used: {lines[0] if lines else 'no reason given'}")

    def _error(self, value: Any) -> DbinferError:
        name, message, hint, words = value
        kind = getattr(errors, name)
        if not (isinstance(kind, type) and issubclass(kind, DbinferError)):
            raise ValueError
        return kind(self._text(message), self._text(hint), [self._text(word) for word in words])

    def _progressed(self, value: Any) -> Progress:
        told: Progress = restored(Progress, value)
        step, unit, note = map(self._text, (told.step, told.unit, told.note))
        return replace(told, step=step, unit=unit, note=note)

    def _lacking(self, value: Any) -> Progress:
        """Return the note on guards that the kernel lacks, which is said once."""
        global _guards_told
        note = ""
        if value and not _guards_told:
            _guards_told = True
            note = sandbox.missing_guards({name: name not in value for name in ("landlock", "seccomp")})
        return Progress(f"reading {self._job.what.name}", note=note)

    def _death(self) -> ModelFileError:
        # it may have closed its end and go on
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(END_SECONDS)
        self._process.kill()
        code = self._process.wait()
        if code < 0:
            names = (one.name for one in signal.Signals if one == -code)
            how = f"was ended by {next(names, f'signal {-code}')}"
        else:
            # Python itself failed, for example because a package is missing
            lines = harmless(self._noise.decode(errors="replace")).strip().splitlines()
            how = f"failed: {lines[-1] if lines else f'exit status {code}'}"
        return ModelFileError(
            f"the process that read {self._job.what} {how}",
            "The file may be damaged or hostile, or this machine lacks memory for it.",
        )


def _processor_seconds(pid: int) -> float | None:
    """Return for how long a process and its threads have computed; None where nobody can tell."""
    try:
        # behind the last parenthesis: the name before it may hold spaces and parentheses
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return sum(map(int, fields[11:13])) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError):
        return None


def cores() -> int:
    """Return how many cores this process may use."""
    return limits.cores()


def memory_mb() -> int:
    """Return the memory in MB that this process may use."""
    return limits.memory_bytes() >> 20
