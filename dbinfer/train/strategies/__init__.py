"""The strategies of training by name; choosing one imports neither TensorFlow nor numpy."""

from __future__ import annotations

from dbinfer.train.options import STRATEGIES
from dbinfer.train.strategies import central, downpour, horovod, mirrored, sandblaster, split
from dbinfer.train.strategies._strategy import Strategy, Tell

__all__ = ["ALL", "Strategy", "Tell", "explained"]

MODULES = (horovod, mirrored, central, downpour, sandblaster, split)
ALL: dict[str, Strategy] = {module.STRATEGY.name: module.STRATEGY for module in MODULES}
assert tuple(ALL) == STRATEGIES


def explained() -> str:
    """Return a paragraph for each strategy, for --help."""
    return "\n\n".join(f"{entry.name}: {entry.when}" for entry in ALL.values())
