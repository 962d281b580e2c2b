"""Times the steps of a row in processes of their own: one alone, and as many as cores together."""

from __future__ import annotations

import json
import multiprocessing
import os
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing.pool import Pool
from statistics import mean, median

from dbinfer.bench.networks import ModelFiles
from dbinfer_udf.model import Model
from dbinfer_udf.tasks import TASKS

NAMES = {"decode": "decode", "preprocess": "fit", "infer": "infer", "postprocess": "finish"}
LEAST_ROWS = 4
Steps = dict[str, float]
# by file: compiling a network takes longer than timing it
kept: dict[str, Model] = {}


@dataclass(frozen=True)
class Job:
    """A network, image files, and for how many seconds to time them."""

    files: ModelFiles
    images: tuple[bytes, ...]
    seconds: float


def timed(job: Job) -> Steps:
    """Return the mean seconds of each step of a row."""
    model = _model(job.files)
    taken: list[dict[str, float]] = []
    profile, until = TASKS["profile"], time.monotonic() + job.seconds
    while time.monotonic() < until or len(taken) < LEAST_ROWS:
        image = job.images[len(taken) % len(job.images)]
        taken.append(json.loads(profile(model, image, None))["microseconds"])
    return {group: mean(row[name] for row in taken) / 1e6 for name, group in NAMES.items()}


def _model(files: ModelFiles) -> Model:
    key = files.entry.path("xml")
    if key not in kept:
        kept[key] = files.compile()
    return kept[key]


class Crew:
    """Processes that time; see `crew`."""

    def __init__(self, pool: Pool, processes: int) -> None:
        self.pool, self.processes = pool, processes

    def steps(self, job: Job) -> tuple[Steps, Steps]:
        """Return the seconds of each step in a process alone, and in one of as many as cores."""
        alone = self.pool.apply(timed, (job,))
        # one job each, because none ends before the others have begun
        together = self.pool.map(timed, [job] * self.processes, chunksize=1)
        return alone, {group: median(one[group] for one in together) for group in alone}


def best(taken: Sequence[tuple[Steps, Steps]]) -> tuple[Steps, Steps]:
    """Return the least of some rounds, alone and together: as of statements, and of the whole row.

    The least of each step would be a row that no round had.
    """
    alone, together = zip(*taken, strict=True)
    return _least(alone), _least(together)


def _least(taken: Sequence[Steps]) -> Steps:
    return min(taken, key=lambda one: sum(one.values()))


@contextmanager
def crew(processes: int) -> Iterator[Crew]:
    """Yield that many processes, and end them."""
    # setsid as in bench.workers: Linux shares the cores between sessions
    with multiprocessing.get_context("spawn").Pool(processes, os.setsid) as pool:
        yield Crew(pool, processes)
