"""Data parallel in one process with TensorFlow's CentralStorageStrategy: the weights lie in the host's memory."""

from __future__ import annotations

from dbinfer.train.strategies._strategy import Strategy
from dbinfer.train.strategies.mirrored import check, train

WHEN = (
    "as mirrored, but the weights and the optimizer's state lie once, in the host's memory, and each device fetches "
    "the weights for each step. Use it when a GPU has too little memory for the optimizer's state; else mirrored is "
    "faster."
)

STRATEGY = Strategy("central", WHEN, check, train)
