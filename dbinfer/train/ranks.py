"""The processes that train together: what they tell each other. One process alone needs no Horovod."""

from __future__ import annotations

import json
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dbinfer.base.errors import TrainError

MOST_BYTES = 1 << 30


def packed(value: Any) -> NDArray[np.uint8]:
    """Return a value as it goes to other ranks: as JSON, because pickles from a network would be executed."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


def unpacked(data: NDArray[np.uint8]) -> Any:
    """Return what `packed` has packed; tuples have become lists.

    Raises:
        TrainError: it is something else.
    """
    try:
        return json.loads(data.tobytes())
    except (ValueError, RecursionError) as err:
        raise _strange() from err


def length_of(found: Any) -> int:
    """Return how many bytes another rank wants to send; TrainError where no rank of ours would send that many."""
    length = int(found)
    if not 0 < length <= MOST_BYTES:
        raise _strange()
    return length


def _strange() -> TrainError:
    return TrainError(
        "a rank has sent what no rank of this training sends",
        "Ranks authenticate nobody: keep strangers off their network.",
    )


class Ranks(Protocol):
    """What one rank knows of the others, and what all do together (each call is made by all of them).

    Attributes:
        rank: number of this process, from 0 on; rank 0 writes all files.
        size: how many there are.
        local_rank: number of this process on its host.
        local_size: how many of them on this host.
    """

    rank: int
    size: int
    local_rank: int
    local_size: int

    def average(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Return the mean of each tensor over the ranks."""

    def broadcast(self, variables: Sequence[Any]) -> None:
        """Give every rank the values that rank 0's variables have."""

    def share(self, value: Any) -> Any:
        """Return rank 0's value, which JSON can represent, on every rank."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks, which JSON can represent, in their order."""

    def among(self, group: Sequence[int]) -> Among:
        """Return what these ranks do without the others."""


class Among(Protocol):
    """Some of the ranks, and what they do together without the others.

    Attributes:
        size: how many they are.
    """

    size: int

    def average(self, tensors: Sequence[Any]) -> Sequence[Any]:
        """Return the mean of each tensor over these ranks."""

    def move(self, tensor: Any, sender: int, name: str) -> Any:
        """Return the tensor of the rank `sender`; the others give one of its shape and dtype.

        In a function that TensorFlow compiles, no two calls may have the same name or, where they receive, the same
        tensor, and the result must be used: TensorFlow makes equal calls one, and leaves out what nothing needs.
        """


class Alone:
    """One process, without any launcher."""

    rank = 0
    size = 1
    local_rank = 0
    local_size = 1

    def average(self, tensors: Sequence[Any]) -> Sequence[Any]:
        return tensors

    def broadcast(self, variables: Sequence[Any]) -> None:
        return None

    def share(self, value: Any) -> Any:
        return value

    def gather(self, value: Any) -> list[Any]:
        return [value]

    def among(self, group: Sequence[int]) -> Alone:
        return self

    def move(self, tensor: Any, sender: int, name: str) -> Any:
        return tensor


class Horovod:
    """The processes that horovodrun or mpirun started.

    Args:
        asked: how many there must be.
        groups: of ranks that will do something without the others, see `among`.

    Raises:
        TrainError: their number is another: under mpirun a Horovod without MPI trains alone N times.
    """

    def __init__(self, asked: int, groups: Sequence[Sequence[int]] = ()) -> None:
        import horovod.tensorflow as hvd

        # Horovod has a set of all ranks already, and takes none twice
        sets = {tuple(group): hvd.ProcessSet(group) for group in groups if len(group) < asked}
        hvd.init(process_sets=list(sets.values()))
        self._hvd, self._sets = hvd, sets
        self.rank, self.size = hvd.rank(), hvd.size()
        self.local_rank, self.local_size = hvd.local_rank(), hvd.local_size()
        if self.size != asked:
            raise TrainError(
                f"{asked} ranks were requested, but the launcher made a group of {self.size}",
                "Rebuild Horovod with MPI and Gloo: rm .venv/train-env.stamp && make train-env",
            )

    def average(self, tensors: Sequence[Any]) -> Sequence[Any]:
        return self.among(range(self.size)).average(tensors)

    def broadcast(self, variables: Sequence[Any]) -> None:
        # Horovod knows TensorFlow's variables; Keras 3 wraps them
        self._hvd.broadcast_variables([variable.value for variable in variables], root_rank=0)

    def share(self, value: Any) -> Any:
        # Not broadcast_object, which executes what it receives
        data = packed(value)
        length = length_of(self._hvd.broadcast(np.array([len(data)]), 0, name="length")[0])
        data = data if self.rank == 0 else np.zeros(length, np.uint8)
        return unpacked(np.asarray(self._hvd.broadcast(data, 0, name="value")))

    def gather(self, value: Any) -> list[Any]:
        data = packed(value)
        lengths = np.asarray(self._hvd.allgather(np.array([len(data)]), name="lengths"))
        ends = np.cumsum([length_of(length) for length in lengths])
        whole = np.asarray(self._hvd.allgather(data, name="values"))
        return [unpacked(part) for part in np.split(whole, ends[:-1])]

    def among(self, group: Sequence[int]) -> Among:
        """Return one of the groups, or all ranks."""
        everyone = len(group) == self.size
        process_set = self._hvd.global_process_set if everyone else self._sets[tuple(group)]
        return _Among(self._hvd, process_set, len(group))


@dataclass
class _Among:
    hvd: Any
    process_set: Any
    size: int

    def average(self, tensors: Sequence[Any]) -> Sequence[Any]:
        hvd = self.hvd
        return list(hvd.grouped_allreduce(list(tensors), op=hvd.Average, process_set=self.process_set))

    def move(self, tensor: Any, sender: int, name: str) -> Any:
        return self.hvd.broadcast(
            tensor, sender, name=name, ignore_name_scope=True, process_set=self.process_set
        )


def hosts_of(ranks: Ranks) -> list[str]:
    """Return the host name of each rank."""
    return [str(name) for name in ranks.gather(socket.gethostname())]
