"""The entry point: checks first, then one rank here or several through a launcher."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

from dbinfer.errors import TrainError
from dbinfer.train import checkpoint
from dbinfer.train.config import TrainConfig
from dbinfer.train.plan import check_images, make_plan
from dbinfer.train.result import TrainResult, read_result


def run(config: TrainConfig, report: Callable[[dict[str, Any]], None] = lambda event: None) -> TrainResult:
    """Train as `config` says.

    Args:
        config: the options.
        report: is told of the progress: {"event": "start" | "step" | "epoch", ...} (see dbinfer.train.trainer).

    Returns:
        The model's path, its history and metrics.

    Raises:
        UsageError, DataError, TrainError: one sentence each; what can be checked is checked before any long work.
    """
    plan = make_plan(config)
    check_images(plan)
    if config.resume:
        checkpoint.check_same(
            checkpoint.read(config.folder, checkpoint.choose(config.folder, config.resume)), config
        )
    try:
        config.folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise TrainError(f"the folder {config.folder} cannot be made: {err.strerror}.") from err
    if config.ranks > 1:
        from dbinfer.train.launch import launch

        launch(config, report)
        return read_result(config)
    import_tensorflow()
    from dbinfer.train.ranks import Alone
    from dbinfer.train.trainer import train_rank

    train_rank(plan, Alone(), report)
    return read_result(config)


def import_tensorflow() -> None:
    """Import TensorFlow without its noise; TrainError where it is not installed."""
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    from dbinfer.convert._quiet import quiet

    try:
        with quiet():
            import tensorflow  # noqa: F401
    except ImportError as err:
        raise TrainError(
            "Training needs TensorFlow, which is not installed.", "pip install 'dbinfer[train]'"
        ) from err
