"""Ranks that train alone for some steps, and then average their weights: model averaging, with block momentum.

Block momentum (Chen and Huo 2016: Scalable training of deep learning machines by incremental block training with
intra-block parallel optimization and blockwise model-update filtering) takes how far the mean has moved in a block as a
gradient: change = momentum x last change + (mean - start), and the next block starts at start + change.
"""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import keras

from dbinfer.train.course import follow
from dbinfer.train.one_rank import Rank
from dbinfer.train.options import TrainJob
from dbinfer.train.ranks import Ranks
from dbinfer.train.report import OnEvent
from dbinfer.train.setup import Setup


def train_averaged(setup: Setup, ranks: Ranks, on_event: OnEvent) -> None:
    """Train with this process as one rank.

    Raises:
        DbinferError: an image is unreadable, a checkpoint does not fit, ...
    """
    follow(AveragedRank(setup, ranks), on_event)


def block_momentum(job: TrainJob) -> float:
    """Return the momentum of blocks: 1 - 1/ranks by itself, as Chen and Huo found best."""
    return 1 - 1 / job.ranks if job.block_momentum is None else job.block_momentum


class Block(keras.callbacks.Callback):  # type: ignore[misc]
    """Averages after every so many steps, and after the last one of an epoch.

    The state of the ranks' optimizers is averaged, too: so all are alike at the end of an epoch, and a resume repeats
    the run.

    Attributes:
        changes: of the weights in the last block, a variable for each that learns.
    """

    def __init__(self, network: Any, ranks: Ranks, job: TrainJob) -> None:
        super().__init__()
        self._network, self._ranks = network, ranks
        self._block, self._momentum = job.block, block_momentum(job)
        self._learned = list(network.trainable_variables)
        self.changes = [_beside(variable) for variable in self._learned]
        self._starts = [_beside(variable) for variable in self._learned]

    def on_epoch_begin(self, epoch: int, logs: Any = None) -> None:
        for start, learned in zip(self._starts, self._learned, strict=True):
            start.assign(learned)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if (batch + 1) % self._block == 0 or batch + 1 == self.params["steps"]:
            self._average()

    def _average(self) -> None:
        state = [*self._network.non_trainable_weights, *self._network.optimizer.variables]
        others = [one for one in state if "float" in str(one.dtype)]
        means = self._ranks.average([keras.ops.convert_to_tensor(one) for one in (*self._learned, *others)])
        for other, mean in zip(others, means[len(self._learned) :], strict=True):
            other.assign(mean)
        moved = zip(self._learned, self._starts, self.changes, means[: len(self._learned)], strict=True)
        for learned, start, change, mean in moved:
            change.assign(self._momentum * change + (mean - start))
            start.assign_add(change)
            learned.assign(start)


def _beside(variable: Any) -> Any:
    return keras.Variable(keras.ops.zeros_like(variable), trainable=False)


class AveragedRank(Rank):
    """A rank that makes its steps alone, see Block."""

    def __init__(self, setup: Setup, ranks: Ranks) -> None:
        super().__init__(setup, ranks, together=False)
        block = Block(self.network, ranks, setup.job)
        self.callbacks = (block,)
        # Checkpoints hold the last changes, too
        variables = [*self.network.optimizer.variables, *block.changes]
        self.model = SimpleNamespace(
            weights=self.network.weights, optimizer=SimpleNamespace(variables=variables)
        )

    def about(self) -> dict[str, Any]:
        job = self.setup.job
        return {**super().about(), "block": job.block, "block_momentum": block_momentum(job)}
