"""Starts the ranks with horovodrun (Gloo) or mpirun, passes their progress on, and says why a run stopped."""

from __future__ import annotations

import base64
import json
import os
import shutil
import signal
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dbinfer.errors import DbinferError, TrainError
from dbinfer.train import events
from dbinfer.train.data.share import held_for_ranks
from dbinfer.train.hosts import check_reachable, hosts_of
from dbinfer.train.options import TrainJob

WORKER = ("-m", "dbinfer.train.worker")
BUILD = "Build it, once per machine: make train-env"
KEPT_LINES = 40
WARNING = "dbinfer: left out: "  # of dbinfer.train.loader
MPI_FLAGS = (
    # mpirun waits busily; without these two, ranks that share cores take them from each other
    *("-bind-to", "none", "-mca", "mpi_yield_when_idle", "1"),
    # No RDMA, which Horovod's manual warns of; no reading of other processes' memory, which containers forbid
    *("-mca", "btl", "^openib", "-mca", "btl_vader_single_copy_mechanism", "none"),
    # mpirun refuses more ranks than it counts cores
    *("--oversubscribe", "-map-by", "slot"),
)
# mpirun gives other hosts only what -x names (and OMPI_*, by itself); horovodrun gives them the whole environment.
# So each family that tunes something in a rank stands here: what is set before the command must hold on every host.
PASSED_NAMES = ("PATH", "LD_LIBRARY_PATH", "LD_PRELOAD", "LANG", "TZ")
PASSED_PREFIXES = (
    *("DBINFER_", "PG", "PYTHON", "LC_", "MALLOC_"),
    *("HOROVOD_", "GLOO_", "NCCL_", "UCX_"),
    *("TF_", "KERAS_", "XLA_", "JAX_", "CUDA_", "ONEDNN_", "DNNL_"),
    *("OMP_", "KMP_", "GOMP_", "MKL_", "OPENBLAS_"),
)


def launch(
    job: TrainJob,
    report: Callable[[dict[str, Any]], None] = lambda event: None,
    worker: Sequence[str] = WORKER,
) -> None:
    """Train with several ranks; returns when all have ended well.

    Args:
        job: ranks, hosts and launcher say what is started.
        report: is told of rank 0's progress.
        worker: what Python runs in each rank.

    Raises:
        TrainError: Horovod is not built, a host cannot be reached, or a rank stopped.
        DbinferError: what a rank has raised.
    """
    if job.ranks > 1:
        check_built(job.launcher)
    hosts = hosts_of(job)
    check_reachable(hosts)
    with ExitStack() as stack:
        environment = _environment(stack.enter_context(held_for_ranks(job)))

        def on_event(event: dict[str, Any]) -> None:
            if event["event"] == "start":
                stack.close()  # all ranks have read their rows
            report(event)

        command = [*launcher_command(job, hosts, environment), sys.executable, *worker, encode(job)]
        process = _start(command, environment)
        try:
            failure, last = _follow(process, on_event)
        finally:
            _end(process)
    if failure is not None:
        raise failure
    if process.returncode:
        raise events.stopped(job, process.returncode, last)


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


def encode(job: TrainJob) -> str:
    """Return the options as one word that no shell changes; the dsn goes through the environment."""
    return base64.urlsafe_b64encode(json.dumps(job.to_dict()).encode()).decode()


def decode(text: str) -> TrainJob:
    """Return the options that `encode` has packed."""
    return TrainJob(**json.loads(base64.urlsafe_b64decode(text)))


def _environment(more: dict[str, str]) -> dict[str, str]:
    """Return what the ranks inherit; the dsn is here, where `ps` does not show its password."""
    # The user may ask for TensorFlow's log again
    environment = {"TF_CPP_MIN_LOG_LEVEL": "3", **os.environ, **more}
    # Not the user's to choose: ranks train with TensorFlow, and progress must not wait in a buffer
    environment.update(KERAS_BACKEND="tensorflow", PYTHONUNBUFFERED="1")
    return environment


def _start(command: Sequence[str], environment: dict[str, str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        env=environment,
        # A process group of its own: _end reaches the ranks behind the launcher, too
        start_new_session=True,
    )


def launcher_command(job: TrainJob, hosts: dict[str, int], environment: dict[str, str]) -> list[str]:
    """Return the words that start the ranks, without what each of them runs."""
    if job.ranks == 1:
        return []
    slots = ",".join(f"{host}:{count}" for host, count in hosts.items())
    if job.launcher == "gloo":
        program = Path(sys.executable).parent / "horovodrun"
        return [str(program), "--gloo", "-np", str(job.ranks), "-H", slots]
    # In containers root trains, and mpirun refuses root unless told
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    passed = [word for name in sorted(environment) if _is_passed(name) for word in ("-x", name)]
    return ["mpirun", *root, "-np", str(job.ranks), "-H", slots, *MPI_FLAGS, *passed]


def _is_passed(name: str) -> bool:
    return name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)


def _follow(
    process: subprocess.Popen[str], report: Callable[[dict[str, Any]], None]
) -> tuple[DbinferError | None, list[str]]:
    """Read the launcher's output to its end; return the first error that a rank sent, and the last lines."""
    failure: DbinferError | None = None
    last: deque[str] = deque(maxlen=KEPT_LINES)
    assert process.stdout is not None
    for line in process.stdout:
        event = events.find(line)
        if event is None:
            last.append(line.rstrip())
            if WARNING in line:
                print(line[line.index(WARNING) :].rstrip(), file=sys.stderr, flush=True)
        elif event["event"] == "error":
            # The first: what other ranks say after it comes of losing that one
            failure = failure or events.to_error(event)
        else:
            report(event)
    process.wait()
    return failure, list(last)


def _end(process: subprocess.Popen[str]) -> None:
    """End what still runs, e.g. after Ctrl-C: first asking, then not."""
    for how, seconds in ((signal.SIGTERM, 10.0), (signal.SIGKILL, 5.0)):
        if process.poll() is not None:
            break
        os.killpg(process.pid, how)
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            continue
    if process.stdout is not None:
        process.stdout.close()
