"""A network that lies split over a mesh of processes: who holds which part, and how the processes start.

JAX's coordinator and Gloo authenticate nobody. They listen on one address: loopback, or with --hosts this host's
address in the private network that is named.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train.hosts import hosts_of, own_address, started_on
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import WORKER, decode, encode, end_with_input, how_it_ended

Axes = tuple[str | None, ...]
BATCH, MODEL = "batch", "model"  # names of the mesh's axes
OUTPUTS, INPUTS = -1, -2  # of a dense layer's or a convolution's kernel


@dataclass(frozen=True)
class Mesh:
    """How the processes share the work: `groups` of `parts`; a group holds the network once, a process one part of it.

    Processes are numbered group by group. Each group has its own part of every batch.
    """

    groups: int
    parts: int

    @classmethod
    def of(cls, job: TrainJob) -> Mesh:
        """Read --mesh GROUPSxPARTS; without it all processes share one network.

        Raises:
            UsageError: it cannot be understood, or needs another number of processes.
        """
        words = (job.mesh or f"1x{job.ranks}").split("x")
        if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
            raise UsageError(f"mesh is {job.mesh!r}, but must be GROUPSxPARTS", "Example: --mesh 2x2")
        groups, parts = map(int, words)
        if groups * parts != job.ranks:
            raise UsageError(
                f"the mesh {job.mesh} has {groups * parts} processes, but ranks is {job.ranks}",
                f"Set --ranks to {groups * parts}.",
            )
        return cls(groups, parts)

    def group(self, process: int) -> int:
        """Return the group of a process."""
        return process // self.parts


@dataclass
class Layout:
    """Decides for each variable, in the order in which the layers are built, how it is split.

    Attributes:
        name: of the preset.
        parts: over how many processes.
        axes: of each layer's kernel that is split: which of its axes.
    """

    name: str
    parts: int
    axes: dict[str, int] = field(default_factory=dict)
    dense: int = 0

    def of(self, path: str, shape: tuple[int, ...]) -> Axes:
        """Return an axis of the mesh, or None, for each axis of the variable; all None where it stays whole."""
        layer, _, kind = path.rpartition("/")
        if kind == "kernel":
            axis = PRESETS[self.name](self, len(shape))
            if axis is not None and shape[axis] % self.parts == 0:
                self.axes[layer] = axis
                return tuple(MODEL if number == axis % len(shape) else None for number in range(len(shape)))
        # The bias belongs to the outputs
        elif kind == "bias" and self.axes.get(layer) == OUTPUTS:
            return (MODEL,)
        return (None,) * len(shape)


def _dense_by_outputs(layout: Layout, dimensions: int) -> int | None:
    return OUTPUTS if dimensions == 2 else None


def _dense_in_pairs(layout: Layout, dimensions: int) -> int | None:
    if dimensions != 2:
        return None
    layout.dense += 1
    return OUTPUTS if layout.dense % 2 else INPUTS


def _all_by_outputs(layout: Layout, dimensions: int) -> int | None:
    return OUTPUTS if dimensions >= 2 else None


PRESETS: dict[str, Callable[[Layout, int], int | None]] = {
    "dense-by-outputs": _dense_by_outputs,
    "dense-in-pairs": _dense_in_pairs,
    "all-by-outputs": _all_by_outputs,
}


def model_parallel(mesh: Mesh, layout: Layout) -> Any:
    """Return Keras' ModelParallel over all processes of the group that JAX knows."""
    from keras import distribution

    devices = distribution.list_devices()
    grid = distribution.DeviceMesh((mesh.groups, mesh.parts), (BATCH, MODEL), devices)

    class Split(distribution.ModelParallel):  # type: ignore[misc]
        """ModelParallel that asks the layout about each variable's path and shape, instead of a table of patterns."""

        def get_variable_layout(self, variable: Any) -> Any:
            # The optimizer's variables have the layout of the weights that they belong to
            if getattr(variable, "_layout", None) is not None:
                return variable._layout
            axes = layout.of(variable.path, tuple(variable.shape))
            return distribution.TensorLayout(axes, grid)

    patterns = distribution.LayoutMap(grid)
    # Each process brings the part of the batch that its group has
    return Split(layout_map=patterns, batch_dim_name=BATCH, auto_shard_dataset=False)


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
    """Start all processes but the first, which is this one; return its place. When one of them dies, this one ends."""
    first, *others = places(job)
    started = [(place.process, _started(job, host, place)) for host, place in others]
    if started:
        threading.Thread(target=_watch, args=(started,), daemon=True).start()
    return first[1]


def _started(job: TrainJob, host: str, place: Place) -> subprocess.Popen[str]:
    command = started_on(host, [sys.executable, *WORKER], os.environ)
    process = subprocess.Popen(command, stdin=subprocess.PIPE, text=True)
    assert process.stdin is not None
    # Not on the command line, where `ps` would show the password of a dsn
    environment = {name: value for name, value in os.environ.items() if name.startswith(INHERITED)}
    given = {"job": encode(job), "place": vars(place), "environment": environment}
    # It stays open: when it ends, the other process ends
    process.stdin.write(json.dumps(given) + "\n")
    process.stdin.flush()
    return process


def _watch(started: Sequence[tuple[int, subprocess.Popen[str]]]) -> None:
    """End this process when another one has died: it would wait for its part of the network."""
    while True:
        for number, process in started:
            code = process.poll()
            if code:
                print(f"dbinfer: rank {number} stopped with {how_it_ended(code)}", flush=True)
                os._exit(1)
        time.sleep(0.2)


def read_place() -> tuple[TrainJob, Place]:
    """Read from standard input what this process is to do; it ends when that input ends."""
    given = json.loads(sys.stdin.readline())
    os.environ.update(given["environment"])
    end_with_input()
    return decode(given["job"]), Place(**given["place"])


def join(job: TrainJob, place: Place) -> None:
    """Make this process part of JAX's group.

    Raises:
        TrainError: a GPU is requested, but there is none, or the others do not arrive.
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
    """Let Gloo listen on this address; by itself it takes the address of the host's name."""
    from jax._src.lib import _jax

    _jax.make_gloo_tcp_collectives = partial(_jax.make_gloo_tcp_collectives, hostname=address)
