"""How fast the machine is at the moment, against its best: on a virtual one neighbours slow minutes by half.

A loop of one network and one kind of image is timed before and after what is measured, which is divided by that speed.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from statistics import median

from dbinfer.bench import networks
from dbinfer.bench.pictures import Kind
from dbinfer.bench.steps import Crew, Job, Steps

NETWORK, KIND, SECONDS = "mobilenet_v2", Kind(500, 375), 0.2
ROUNDS = 5


@dataclass
class Speed:
    """Times the loop.

    Attributes:
        alone, together: seconds of a row of the loop when nothing disturbed it, in one process and in as many as cores.
    """

    crew: Crew
    alone: float
    together: float

    @classmethod
    def of(cls, crew: Crew, alone: Steps, together: Steps) -> Speed:
        """Return what compares with the steps that were measured when nothing disturbed them."""
        return cls(crew, sum(alone.values()), sum(together.values()))

    def slower(self, processes: int) -> float:
        """Return how many times slower the machine is now."""
        job = Job(networks.model_files(NETWORK, "f32"), KIND.files(), SECONDS)
        count = min(processes, self.crew.processes)
        return self.crew.row(job, count) / (self.alone if count == 1 else self.together)

    def measured(
        self, measure: Callable[[], float], processes: int = 1, rounds: int = ROUNDS
    ) -> tuple[float, float, float]:
        """Return the median of some measurements at the machine's best speed, their spread, and its mean slowness.

        The spread is the largest / the least of them.
        """
        before, taken, speeds = self.slower(processes), [], []
        for _ in range(rounds):
            value = measure()
            after = self.slower(processes)
            speeds.append((before + after) / 2)
            taken.append(value / speeds[-1])
            before = after
        return median(taken), max(taken) / min(taken), sum(speeds) / rounds
