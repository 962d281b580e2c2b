"""The whole network in the first process's memory, gathered for checkpoints and the model's file."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray


class Held:
    """A variable as checkpoints know it; its values are here only while they are needed."""

    def __init__(self, variable: Any) -> None:
        self.shape = tuple(variable.shape)
        self.value: NDArray[Any] | None = None
        self._variable = variable

    def assign(self, value: Any) -> None:
        """Take a value; `spread` gives it to the network."""
        self.value = np.asarray(value)

    def gather(self, keep: bool) -> None:
        """Fetch the values from all processes, which make this call together; those that keep none drop them."""
        from jax.experimental import multihost_utils

        whole = multihost_utils.process_allgather(self._variable.value, tiled=True)
        self.value = np.asarray(whole) if keep else None

    def spread(self) -> None:
        """Give the network the first process's values; all processes make this call together."""
        import jax
        from jax.experimental import multihost_utils

        now = self._variable.value
        given = self.value if self.value is not None else np.zeros(now.shape, now.dtype)
        whole = np.asarray(multihost_utils.broadcast_one_to_all(given.astype(now.dtype)))
        # Each process makes its own part; assigning the whole would make JAX compare it on all processes
        self._variable.assign(
            jax.make_array_from_callback(now.shape, now.sharding, lambda index: whole[index])
        )

    def __array__(self, dtype: Any = None, copy: Any = None) -> NDArray[Any]:
        assert self.value is not None, "the values have not been gathered"
        return self.value if dtype is None else self.value.astype(dtype)


class Mirror:
    """What a checkpoint holds of a network that lies split: see dbinfer.train.course.Trained.model."""

    def __init__(self, model: Any) -> None:
        self.weights = [Held(variable) for variable in model.weights]
        self.optimizer = SimpleNamespace(variables=[Held(variable) for variable in model.optimizer.variables])

    @property
    def variables(self) -> Sequence[Held]:
        """All of them."""
        return [*self.weights, *self.optimizer.variables]

    @property
    def filled(self) -> bool:
        """Whether a checkpoint has been read."""
        return any(one.value is not None for one in self.variables)

    def gather(self, keep: bool) -> None:
        """Fetch all values, one variable after the other."""
        for one in self.variables:
            one.gather(keep)

    def spread(self) -> None:
        """Give all values to the network, one variable after the other."""
        for one in self.variables:
            one.spread()

    def drop(self) -> None:
        """Free the memory: while the network trains, nobody has it as a whole."""
        for one in self.variables:
            one.value = None
