"""The processes that train together: what they tell each other. One process alone needs no Horovod."""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Any, Protocol

from dbinfer.errors import TrainError


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
        """Return rank 0's value (anything that can be pickled) on every rank."""

    def gather(self, value: Any) -> list[Any]:
        """Return the values of all ranks in their order."""


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


class Horovod:
    """The processes that horovodrun or mpirun started.

    Args:
        asked: how many there must be.

    Raises:
        TrainError: there are others: a Horovod without MPI under mpirun trains N times alone.
    """

    def __init__(self, asked: int) -> None:
        import horovod.tensorflow as hvd

        hvd.init()
        self._hvd = hvd
        self.rank, self.size = hvd.rank(), hvd.size()
        self.local_rank, self.local_size = hvd.local_rank(), hvd.local_size()
        if self.size != asked:
            raise TrainError(
                f"{asked} ranks were requested, but the launcher made a group of {self.size}",
                "Rebuild Horovod with MPI and Gloo: rm .venv/train-env.stamp && make train-env",
            )

    def average(self, tensors: Sequence[Any]) -> Sequence[Any]:
        return list(self._hvd.grouped_allreduce(list(tensors), op=self._hvd.Average))

    def broadcast(self, variables: Sequence[Any]) -> None:
        # Horovod knows TensorFlow's variables; Keras 3 wraps them
        self._hvd.broadcast_variables([variable.value for variable in variables], root_rank=0)

    def share(self, value: Any) -> Any:
        return self._hvd.broadcast_object(value, root_rank=0)

    def gather(self, value: Any) -> list[Any]:
        return list(self._hvd.allgather_object(value))


def hosts_of(ranks: Ranks) -> list[str]:
    """Return the host name of each rank."""
    return [str(name) for name in ranks.gather(socket.gethostname())]
