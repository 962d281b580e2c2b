"""One rank of several: `python -m dbinfer.train.worker OPTIONS`, started by horovodrun or mpirun."""

from __future__ import annotations

import sys
from typing import Any

from dbinfer.train import processes


def main(text: str) -> None:
    """Train as one rank; an error of the user's is sent to the launching process, and the rank ends with 1."""
    processes.sending_errors(_train, text)


def _train(text: str) -> None:
    from dbinfer.train.device import import_tensorflow
    from dbinfer.train.plan import make_plan
    from dbinfer.train.processes import decode
    from dbinfer.train.ranks import Alone, Horovod

    job = decode(text)
    # Before TensorFlow: mistakes in the data show at once
    plan = make_plan(job)
    import_tensorflow()
    ranks = Horovod(job.ranks) if job.ranks > 1 else Alone()
    # After TensorFlow: it imports Keras, whose noise would not be silenced
    from dbinfer.train.one_rank import train_rank

    def nothing(event: dict[str, Any]) -> None:
        pass

    train_rank(plan, ranks, processes.send if ranks.rank == 0 else nothing)


if __name__ == "__main__":
    main(sys.argv[1])
