"""One process of the strategy split: `python -m dbinfer.train.split.worker [OPTIONS]`; with options it is the first."""

from __future__ import annotations

import os
import sys
from typing import Any

from dbinfer.errors import DbinferError
from dbinfer.train import events
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import decode
from dbinfer.train.split import group


def main(words: list[str]) -> None:
    """Train; an error of the user's is sent to the launching process, and this one ends with 1."""
    try:
        if words:
            job = decode(words[0])
            place = group.start_others(job)
        else:
            job, place = group.read_place()
        _train(job, place)
    except DbinferError as err:
        events.send_error(err)
        sys.stdout.flush()
        os._exit(1)  # at once: the others wait for this one's part of the network


def _train(job: TrainJob, place: group.Place) -> None:
    from dbinfer.train.plan import make_plan

    # Before JAX: mistakes in the data show at once
    plan = make_plan(job)
    # Keras reads it once, when it is imported
    os.environ["KERAS_BACKEND"] = "jax"
    # Keras would import it beside JAX: some 400 MB in each process, for nothing
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    group.join(job, place)
    from dbinfer.train import course
    from dbinfer.train.split.trainer import Trainer

    def nothing(event: dict[str, Any]) -> None:
        pass

    course.follow(Trainer(plan, place.process), events.send if place.process == 0 else nothing)


if __name__ == "__main__":
    main(sys.argv[1:])
