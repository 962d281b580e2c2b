"""The processes that share a network: the first one starts the others, and JAX makes them one group.

JAX's coordinator and Gloo ask nobody who they are. They listen on one address: loopback, or with --hosts this host's
address in the private network that is named.
"""

from __future__ import annotations

import json
import os
import shlex
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from dbinfer.base.errors import DbinferError, TrainError
from dbinfer.train import processes
from dbinfer.train.hosts import SSH, hosts_of, is_here, own_address
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import decode

MODULE = "dbinfer.train.split.worker"
INHERITED = ("DBINFER_", "PG", "JAX_", "XLA_", "OMP_", "CUDA_", "NCCL_", "KERAS_")


@dataclass(frozen=True)
class Place:
    """One process of the group.

    Attributes:
        process: its number.
        local: its number on its host.
        coordinator: address and port of the first process.
    """

    process: int
    local: int
    coordinator: str


def places(job: TrainJob) -> list[tuple[str, Place]]:
    """Return host and place of each process; the coordinator's port is free now."""
    here = own_address(job.private_network)
    coordinator = f"{here}:{_free_port(here)}"
    found: list[tuple[str, Place]] = []
    for host, count in hosts_of(job).items():
        found += [(host, Place(len(found) + n, n, coordinator)) for n in range(count)]
    return found


def _free_port(address: str) -> int:
    try:
        with closing(socket.socket()) as listener:
            listener.bind((address, 0))
            return int(listener.getsockname()[1])
    except OSError as err:
        raise TrainError(f"cannot listen on {address}: {err.strerror}") from err


def start_others(job: TrainJob) -> Place:
    """Start all processes but the first, which this is; return its place. When one of them dies, this one ends."""
    first, *others = places(job)
    started = [(place.process, _started(job, host, place)) for host, place in others]
    if started:
        threading.Thread(target=_watch, args=(started,), daemon=True).start()
    return first[1]


def _started(job: TrainJob, host: str, place: Place) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", MODULE]
    if not is_here(host):
        words = ["env", f"PYTHONPATH={os.environ.get('PYTHONPATH', '')}", *command]
        command = [*SSH, host, f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(words)}"]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    # Not on the command line, where `ps` would show the password of a dsn
    environment = {name: value for name, value in os.environ.items() if name.startswith(INHERITED)}
    given = {"job": processes.encode(job), "place": vars(place), "environment": environment}
    # It stays open: the other end takes its end for ours
    process.stdin.write(json.dumps(given) + "\n")
    process.stdin.flush()
    return process


def _watch(started: Sequence[tuple[int, subprocess.Popen[str]]]) -> None:
    """End this process when another one has died: it would wait for its part of the network."""
    while True:
        for number, process in started:
            code = process.poll()
            if code:
                how = f"signal {-code}" if code < 0 else f"exit status {code}"
                print(f"dbinfer: rank {number} stopped with {how}", flush=True)
                os._exit(1)
        time.sleep(0.2)


def read_place() -> tuple[TrainJob, Place]:
    """Read from standard input what this process is to do; it ends when that input does."""
    given = json.loads(sys.stdin.readline())
    os.environ.update(given["environment"])
    threading.Thread(target=_end_with_input, daemon=True).start()
    return processes.decode(given["job"]), Place(**given["place"])


def _end_with_input() -> None:
    sys.stdin.read()
    os._exit(1)


def join(job: TrainJob, place: Place) -> None:
    """Make this process part of JAX's group.

    Raises:
        TrainError: a GPU is asked for where none is, or the others do not come.
    """
    import jax

    if job.device == "cpu":
        jax.config.update("jax_platforms", "cpu")
    if job.ranks > 1:
        _listen_on(own_address(job.private_network))
        jax.config.update("jax_cpu_collectives_implementation", "gloo")
        try:
            jax.distributed.initialize(
                place.coordinator,
                job.ranks,
                place.process,
                [place.local],
                coordinator_bind_address=place.coordinator,
                initialization_timeout=60,
            )
        except RuntimeError as err:
            raise TrainError(
                f"rank {place.process} cannot join the others: {str(err).splitlines()[0]}"
            ) from err
    if job.device == "gpu":
        with suppress(RuntimeError):
            jax.devices("gpu")
            return
        raise TrainError(
            "a GPU was requested, but JAX finds none on this host",
            "Leave out --device gpu, or install JAX with CUDA where there is a GPU.",
        )


def _listen_on(address: str) -> None:
    """Let Gloo listen on this address; by itself it takes that of the host's name."""
    from jax._src.lib import _jax

    _jax.make_gloo_tcp_collectives = partial(_jax.make_gloo_tcp_collectives, hostname=address)


def main(words: list[str]) -> None:
    """Train; an error of the user's is sent to the launching process, and this one ends with 1."""
    try:
        if words:
            job = decode(words[0])
            place = start_others(job)
        else:
            job, place = read_place()
        _train(job, place)
    except DbinferError as err:
        processes.send_error(err)
        sys.stdout.flush()
        os._exit(1)  # at once: the others wait for this one's part of the network


def _train(job: TrainJob, place: Place) -> None:
    from dbinfer.train.plan import make_plan

    # Before JAX: mistakes in the data show at once
    plan = make_plan(job)
    # Keras reads it once, when it is imported
    os.environ["KERAS_BACKEND"] = "jax"
    # Keras would import it beside JAX: some 400 MB in each process, for nothing
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    join(job, place)
    from dbinfer.train import course
    from dbinfer.train.split.trainer import Trainer

    def nothing(event: dict[str, Any]) -> None:
        pass

    course.follow(Trainer(plan, place.process), processes.send if place.process == 0 else nothing)


if __name__ == "__main__":
    main(sys.argv[1:])
