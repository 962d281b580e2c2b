"""Starts the ranks with horovodrun (Gloo) or mpirun, passes their progress on, and says why a run stopped."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from dbinfer.errors import TrainError
from dbinfer.train.hosts import check_reachable, hosts_of, is_here
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import encode, run_all

WORKER = ("-m", "dbinfer.train.worker")
BUILD = "Build it, once per machine: make train-env"
MPI_FLAGS = (
    # mpirun waits busily; without these two, ranks that share cores take them from each other
    *("-bind-to", "none", "-mca", "mpi_yield_when_idle", "1"),
    # No reading of other processes' memory, which containers forbid
    *("-mca", "btl_vader_single_copy_mechanism", "none"),
    # mpirun refuses more ranks than it counts cores
    *("--oversubscribe", "-map-by", "slot"),
)
# No RDMA, which Horovod's manual warns of
NETWORK_MPI_FLAGS = ("-mca", "btl", "^openib")
# Open MPI listens on every address and asks nobody who he is; ranks of one host need no network
LOCAL_MPI_FLAGS = ("-mca", "btl", "self,vader", "-mca", "pml", "ob1", "-mca", "oob_tcp_if_include", "lo")
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

    def command(environment: dict[str, str]) -> list[str]:
        return [*launcher_command(job, hosts, environment), sys.executable, *worker, encode(job)]

    run_all(job, command, report)


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
            program = [sys.executable, "-m", "dbinfer.train.rendezvous"]
        return [*program, "--gloo", "-np", str(job.ranks), "-H", slots]
    # In containers root trains, and mpirun refuses root unless told
    root = ["--allow-run-as-root"] if os.getuid() == 0 else []
    passed = [word for name in sorted(environment) if _is_passed(name) for word in ("-x", name)]
    flags = [*MPI_FLAGS, *(LOCAL_MPI_FLAGS if alone else NETWORK_MPI_FLAGS)]
    return ["mpirun", *root, "-np", str(job.ranks), "-H", slots, *flags, *passed]


def _is_passed(name: str) -> bool:
    return name in PASSED_NAMES or name.startswith(PASSED_PREFIXES)
