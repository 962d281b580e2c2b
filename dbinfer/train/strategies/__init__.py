"""The strategies of training by name; choosing one imports neither TensorFlow nor numpy."""

from __future__ import annotations

from dbinfer.train.options import STRATEGIES
from dbinfer.train.strategies._strategy import Strategy, Tell
from dbinfer.train.strategies.central import STRATEGY as CENTRAL
from dbinfer.train.strategies.downpour import STRATEGY as DOWNPOUR
from dbinfer.train.strategies.horovod import STRATEGY as HOROVOD
from dbinfer.train.strategies.mirrored import STRATEGY as MIRRORED
from dbinfer.train.strategies.sandblaster import STRATEGY as SANDBLASTER
from dbinfer.train.strategies.split import STRATEGY as SPLIT

__all__ = ["ALL", "Strategy", "Tell", "explained"]

ALL: dict[str, Strategy] = {
    strategy.name: strategy for strategy in (HOROVOD, MIRRORED, CENTRAL, DOWNPOUR, SANDBLASTER, SPLIT)
}
assert tuple(ALL) == STRATEGIES


def explained() -> str:
    """Return a paragraph for each strategy, for --help."""
    return "\n\n".join(f"{entry.name}: {entry.when}" for entry in ALL.values())
