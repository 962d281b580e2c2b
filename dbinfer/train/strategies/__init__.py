"""The strategies of training by name; choosing one imports neither TensorFlow nor numpy."""

from __future__ import annotations

from dbinfer.train.options import STRATEGIES
from dbinfer.train.strategies import horovod, split
from dbinfer.train.strategies._strategy import Strategy, Tell

__all__ = ["ALL", "Strategy", "Tell", "explained"]

ALL: dict[str, Strategy] = {entry.name: entry for entry in (horovod.STRATEGY, split.STRATEGY)}
assert tuple(ALL) == STRATEGIES


def explained() -> str:
    """Return a paragraph for each strategy, for --help."""
    return "\n\n".join(f"{entry.name}: {entry.when}" for entry in ALL.values())
