"""The process of the strategies mirrored and central: `python -m dbinfer.train.replicas_worker OPTIONS`."""

from __future__ import annotations

import sys

from dbinfer.train import processes
from dbinfer.train.processes import decode


def _train(text: str) -> None:
    from dbinfer.train.device import import_tensorflow
    from dbinfer.train.plan import make_plan

    # Before TensorFlow: mistakes in the data show at once
    plan = make_plan(decode(text))
    import_tensorflow()
    from dbinfer.train.course import follow
    from dbinfer.train.replicas import Replicas

    follow(Replicas(plan), processes.send)


if __name__ == "__main__":
    processes.sending_errors(_train, sys.argv[1])
