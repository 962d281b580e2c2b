"""Starts the processes of a training: what they inherit, what they report, and how they end."""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from dbinfer.base import errors
from dbinfer.base.errors import DbinferError, TrainError, harmless
from dbinfer.train import checkpoint, guard
from dbinfer.train.data import held_for_ranks
from dbinfer.train.hosts import check_reachable, hosts_of, is_here
from dbinfer.train.options import TrainJob
from dbinfer.train.report import OnEvent

Given = TypeVar("Given")
MARK = "dbinfer-event:"
ENDED = (  # how mpirun, horovodrun and dbinfer.train.mesh report it
    re.compile(r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<status>\d+)"),
    re.compile(r"dbinfer: rank (?P<rank>\d+) stopped with (?:signal|exit status) (?P<status>\d+)"),
    re.compile(r"Process name: (?:\[\[\d+,\d+\],)?(?P<rank>\d+)\]?\s+Exit code:\s+(?P<status>\d+)"),
)
RAISED = re.compile(r"\b[\w.]+(?:Error|Exception|Exit): .*")
BINDING = re.compile(r"rank \d+ (?:is not )?bound .*")  # of mpirun --report-bindings
KEPT_LINES = 40
WARNING = "dbinfer: left out: "  # of dbinfer.train.loader


def send(event: dict[str, Any]) -> None:
    """Print an event; the launchers pass it on with a prefix."""
    sys.stdout.write(f"{MARK}{json.dumps(event)}\n")
    sys.stdout.flush()


def sending_errors(work: Callable[[Given], None], given: Given) -> None:
    """Call `work`; an error that a user can mend is sent to the launching process, and this process ends with 1."""
    try:
        work(given)
    except DbinferError as err:
        send({"event": "error", "kind": type(err).__name__, "message": err.message, "hint": err.hint})
        os._exit(1)  # at once: other ranks wait in a collective operation for this one


def end_with_input() -> None:
    """End this process when its standard input ends: whoever started it has ended, here or at the other end of ssh."""
    threading.Thread(target=_wait_for_the_end, daemon=True).start()


def _wait_for_the_end() -> None:
    sys.stdin.read()
    os._exit(1)


def find(line: str) -> dict[str, Any] | None:
    """Return the event in a line of a launcher's output, or None."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        event = json.loads(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def to_error(event: dict[str, Any]) -> DbinferError:
    """Return the error that a rank has sent."""
    kind = getattr(errors, str(event.get("kind")), TrainError)
    known = isinstance(kind, type) and issubclass(kind, DbinferError)
    error = kind if known else TrainError
    found: DbinferError = error(str(event.get("message", "")), str(event.get("hint", "")))
    return found


def note(line: str, last: deque[str]) -> None:
    """Keep a line of a process's output that is no event; show it at once where it is a warning of ours."""
    last.append(line.rstrip())
    if WARNING in line:
        print(harmless(line[line.index(WARNING) :].rstrip()), file=sys.stderr, flush=True)


def stopped(job: TrainJob, code: int, last: Sequence[str]) -> TrainError:
    """Return the error for ranks that ended without giving a reason: killed, out of memory, lost."""
    hint = how_to_go_on(job)
    for pattern in ENDED:
        if found := pattern.search("\n".join(last)):
            rank, status = found["rank"], int(found["status"])
            how = (
                # A shell's exit status above 128 is 128 + the signal
                f"signal {status % 128}" if "signal" in found[0] or status > 128 else f"exit status {status}"
            )
            return TrainError(
                f"rank {rank} stopped with {how}, and the other ranks were ended.{_raised(last)}", hint
            )
    return TrainError(f"a rank stopped (the launcher's exit status is {code}).{last_lines(last, 8)}", hint)


def how_it_ended(code: int) -> str:
    """Return what a return code of subprocess means, in words."""
    return f"signal {-code}" if code < 0 else f"exit status {code}"


def last_lines(lines: Sequence[str], count: int) -> str:
    """Return the last lines that are not empty, each with a break before it."""
    return "".join(f"\n  {line}" for line in [line for line in lines if line.strip()][-count:])


def how_to_go_on(job: TrainJob) -> str:
    """Return the hint for a run that stopped."""
    done = checkpoint.epochs(job.folder)
    return (
        f"Epoch {done[-1]} is kept: go on with --resume." if done else "No epoch was done yet: start again."
    )


def _raised(last: Sequence[str]) -> str:
    """Return the last line of a traceback that a rank has printed, if it did."""
    lines = [found[0] for line in last if (found := RAISED.search(line))]
    return f"\n  {lines[-1]}" if lines else ""


def encode(job: TrainJob) -> str:
    """Return the options as one word that no shell changes; the dsn travels in the environment."""
    return base64.urlsafe_b64encode(json.dumps(job.to_dict()).encode()).decode()


def decode(text: str) -> TrainJob:
    """Return the options that `encode` has packed."""
    return TrainJob(**json.loads(base64.urlsafe_b64decode(text)))


WORKER = ("-m", "dbinfer.train.worker")


def train_in_process(job: TrainJob, on_event: OnEvent, more: Mapping[str, str] | None = None) -> None:
    """Run dbinfer.train.worker in a process of its own, which trains and leaves the files of the run.

    Args:
        on_event: is told of the progress.
        more: environment variables for it.

    Raises:
        TrainError: it stopped.
        DbinferError: what it has sent as an error.
    """
    run_all(job, lambda environment: [sys.executable, *WORKER, encode(job)], on_event, more)


def run_all(
    job: TrainJob,
    command: Callable[[dict[str, str]], Sequence[str]],
    on_event: OnEvent,
    more: Mapping[str, str] | None = None,
) -> None:
    """Run the command that starts all processes of a training; a snapshot is held until they have read their rows."""
    with ExitStack() as stack:
        environment = inherited({**stack.enter_context(held_for_ranks(job)), **(more or {})})

        def told(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                stack.close()  # all ranks have read their rows
            on_event(event)

        # -I: the modules of ours beside it must not stand in for Python's
        guarded = [sys.executable, "-I", guard.__file__, *command(environment)]
        process = start(guarded, environment, stdin=subprocess.PIPE)
        try:
            failure, last = follow(process, told)
        finally:
            end(process)
    if failure is not None:
        raise failure
    if process.returncode:
        raise stopped(job, process.returncode, last)


def inherited(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the processes; the dsn is in it, where `ps` does not show its password."""
    # A default: the user may ask for TensorFlow's log
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    # Not for the user to choose: the strategy needs its backend, and progress must not wait in a buffer
    environment.update({"KERAS_BACKEND": "tensorflow", "PYTHONUNBUFFERED": "1", **more})
    return environment


def start(
    command: Sequence[str], environment: dict[str, str], stdin: int = subprocess.DEVNULL
) -> subprocess.Popen[str]:
    """Start a command whose output `follow` reads."""
    return subprocess.Popen(
        command,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        # A process group of its own: `end` reaches the ranks behind the launcher, too
        start_new_session=True,
    )


def follow(process: subprocess.Popen[str], on_event: OnEvent) -> tuple[DbinferError | None, list[str]]:
    """Read the output to its end; return the first error that was sent, and the last lines."""
    failure: DbinferError | None = None
    last: deque[str] = deque(maxlen=KEPT_LINES)
    assert process.stdout is not None
    for line in process.stdout:
        event = find(line)
        if event is None:
            note(line, last)
            if found := BINDING.search(line):
                on_event({"event": "network", "text": found[0]})
        elif event["event"] == "error":
            # The first: what other ranks say afterwards follows from losing that one
            failure = failure or to_error(event)
        else:
            on_event(event)
    process.wait()
    return failure, list(last)


def end(process: subprocess.Popen[str]) -> None:
    """End what still runs, e.g. after Ctrl-C, and close its pipes."""
    stop(process)
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def stop(process: subprocess.Popen[str]) -> None:
    """End what still runs: first by SIGTERM, then by SIGKILL."""
    for how, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            break
        with suppress(ProcessLookupError):  # it has ended meanwhile, and another thread has noticed
            os.killpg(process.pid, how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue


BUILD = "Build it, once per machine: make train-env"
MPI_FLAGS = (
    # mpirun waits busily: unbound ranks would take shared cores from each other
    *("-mca", "mpi_yield_when_idle", "1"),
    # No reading of other processes' memory, which containers forbid
    *("-mca", "btl_vader_single_copy_mechanism", "none"),
)
# mpirun binds ranks by itself, and refuses more of them than it counts cores
UNBOUND_MPI_FLAGS = ("-bind-to", "none", "--oversubscribe", "-map-by", "slot")
# No RDMA: Horovod's manual warns of it
NETWORK_MPI_FLAGS = ("-mca", "btl", "^openib")
# Open MPI listens on every address and authenticates nobody; ranks of one host need no network
LOCAL_MPI_FLAGS = ("-mca", "btl", "self,vader", "-mca", "pml", "ob1", "-mca", "oob_tcp_if_include", "lo")
# mpirun gives other hosts only what -x names (and OMPI_*, by itself); horovodrun gives them the whole environment.
# So every family of settings stands here: what is set before the command must hold on every host.
PASSED_NAMES = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LANG", "TZ")
PASSED_PREFIXES = (
    *("DBINFER_", "PG", "PYTHON", "LC_", "MALLOC_"),
    *("HOROVOD_", "GLOO_", "NCCL_", "UCX_"),
    *("TF_", "KERAS_", "XLA_", "JAX_", "CUDA_", "ONEDNN_", "DNNL_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_"),
)


def launch(
    job: TrainJob,
    on_event: OnEvent = lambda event: None,
    worker: Sequence[str] = WORKER,
) -> None:
    """Train with several ranks; return when all have ended well.

    Args:
        job: ranks, hosts and launcher say what is started.
        on_event: is told of rank 0's progress.
        worker: what Python runs in each rank.

    Raises:
        TrainError: Horovod is not built, a host cannot be reached, or a rank stopped.
        DbinferError: what a rank has raised.
    """
    if job.ranks > 1:
        check_built(job.launcher)
    hosts = hosts_of(job)
    check_reachable(hosts)

    def command(environment: dict[str, str]) -> list[str]:
        return [*launcher_command(job, hosts, environment), sys.executable, *worker, encode(job)]

    run_all(job, command, on_event)


def check_built(launcher: str) -> None:
    """Raise TrainError where Horovod or the launcher is missing."""
    # Not imported: horovod.tensorflow would bring TensorFlow into the launching process
    spec = find_spec("horovod")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or [])] if spec else []
    if not any(list((folder / "tensorflow").glob("mpi_lib*.so")) for folder in folders):
        raise TrainError("training with several ranks needs Horovod, which is not installed here", BUILD)
    if launcher == "mpi" and shutil.which("mpirun") is None:
        raise TrainError(
            "the launcher mpi needs mpirun, which is not installed", f"Use --launcher gloo. {BUILD}"
        )


def launcher_command(job: TrainJob, hosts: dict[str, int], environment: dict[str, str]) -> list[str]:
    """Return the words that start the ranks, without what each of them runs."""
    if job.ranks == 1:
        return []
    slots = ",".join(f"{host}:{count}" for host, count in hosts.items())
    alone = all(map(is_here, hosts))
    if job.launcher == "gloo":
        program = [str(Path(sys.executable).parent / "horovodrun")]
        if alone:
            program = [sys.executable, *WORKER, "horovodrun"]  # on loopback alone
        return [*program, "--gloo", "-np", str(job.ranks), "-H", slots]
    # In containers root trains, and mpirun refuses root unless told
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    passed = [word for name in sorted(environment) if _is_passed(name) for word in ("-x", name)]
    flags = [*MPI_FLAGS, *_bound(job.bind), *(LOCAL_MPI_FLAGS if alone else NETWORK_MPI_FLAGS)]
    return ["mpirun", *root, "-np", str(job.ranks), "-H", slots, *flags, *passed]


def _bound(where: str) -> Sequence[str]:
    if not where:
        return UNBOUND_MPI_FLAGS
    level, _, cores = where.partition(":")
    return ("-map-by", where, "-bind-to", "core" if cores else level, "--report-bindings")


def _is_passed(name: str) -> bool:
    return name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)
