"""What a strategy of training is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbinfer.train.options import TrainJob

if TYPE_CHECKING:
    from dbinfer.train.plan import Plan

Tell = Callable[[dict[str, Any]], None]


@dataclass(frozen=True)
class Strategy:
    """A way to train one network with several processes or devices.

    Attributes:
        name: its name on the command line.
        when: a paragraph that says when to use it; --help shows it.
        check: raises where it cannot train with these options; before any data is looked at.
        train: trains and leaves the run's folder (dbinfer.train.course does that); it closes the plan's snapshot
            when the rows are read, or before other processes read theirs. `Tell` gets the events start, step, epoch.
    """

    name: str
    when: str
    check: Callable[[TrainJob], None]
    train: Callable[[Plan, Tell], None]
