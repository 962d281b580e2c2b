"""Training: Keras networks of the zoo become models that `dbinfer convert` and `dbinfer deploy` take."""

from __future__ import annotations

from dbinfer.train.config import TrainConfig, make_config, read_config
from dbinfer.train.history import Epoch
from dbinfer.train.result import TrainResult
from dbinfer.train.run import run

__all__ = ["Epoch", "TrainConfig", "TrainResult", "make_config", "read_config", "run"]
