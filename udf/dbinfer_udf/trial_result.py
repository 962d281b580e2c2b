"""What the trial of a model measured."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from .batch_rows import pays


@dataclass(frozen=True)
class Result:
    """What a model took.

    Attributes:
        compile_milliseconds: to compile it.
        milliseconds: median of an image with one thread.
        peak_bytes: largest resident memory of the process, before it tried a batch.
        batch_milliseconds: of an image within a batch of 32; None where the network takes none, or too much for one.
    """

    compile_milliseconds: float
    milliseconds: float
    peak_bytes: int
    batch_milliseconds: Optional[float] = None

    @property
    def pays(self) -> bool:
        """Whether tables are scored in batches for that."""
        return pays(self.milliseconds, self.batch_milliseconds)
