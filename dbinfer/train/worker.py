"""One process of a training, as launchers, ssh or the command start it: `python -m dbinfer.train.worker ...`.

    describe JOB TASK LABELS   looks at a network of the user's own, and sends what follows from it
    JOB             a rank of horovod, pipeline or averaging, the process of mirrored and central, or the first of split
    ROLE INDEX      of downpour and sandblaster: the chief, which trains, a parameter server (ps) or a worker
                    nothing: another process of split
    horovodrun ...  Horovod's launcher, for ranks of this host alone

JOB is what dbinfer.train.processes.encode has packed. Members of a cluster and the other processes of split are told
what to do on their standard input, and end when it ends: whoever started them has ended.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dbinfer.train.hosts import LOOPBACK, hold_port, own_address
from dbinfer.train.mesh import Place, join, read_place, start_others
from dbinfer.train.options import TrainJob
from dbinfer.train.processes import decode, end_with_input, send, sending_errors


def main(words: Sequence[str]) -> None:
    """Play the part that these words name; an error that a user can mend is sent to the launching process."""
    if words[:1] == ["horovodrun"]:
        run_on_loopback(words[1:])
    elif words[:1] == ["describe"]:
        sending_errors(describe, words[1:])
    elif not words:
        sending_errors(train_part, read_place())
    elif len(words) == 2:
        sending_errors(take_part, (words[0], int(words[1])))
        sys.stdout.flush()
        os._exit(0)  # at once: TensorFlow's threads wait for servers that may be gone
    else:
        sending_errors(train, decode(words[0]))


def describe(words: Sequence[str]) -> None:
    """Send what follows from a network of the user's own; the user's code runs here."""
    from dbinfer.train import described

    described.describe(decode(words[0]), words[1], int(words[2]))


def train(job: TrainJob) -> None:
    """Train as the strategy says."""
    if job.strategy == "split":
        train_part((job, start_others(job)))
    elif job.strategy in ("horovod", "pipeline", "averaging"):
        train_as_rank(job)
    else:
        train_replicas(job)


def train_as_rank(job: TrainJob) -> None:
    """Train as one rank of several; rank 0 reports the progress."""
    from dbinfer.train.device import import_tensorflow
    from dbinfer.train.ranks import Alone, Horovod
    from dbinfer.train.setup import make_setup

    setup = make_setup(job)  # before TensorFlow: mistakes in the data show at once
    import_tensorflow()
    groups: list[list[int]] = []
    # After TensorFlow: these import Keras, which would not be silent
    if job.strategy == "pipeline":
        from dbinfer.train.stage import groups_of
        from dbinfer.train.stage import train_stage as train_here

        groups = groups_of(job)
    elif job.strategy == "averaging":
        from dbinfer.train.averaging import train_averaged as train_here
    else:
        from dbinfer.train.one_rank import train_rank as train_here
    ranks = Horovod(job.ranks, groups) if job.ranks > 1 else Alone()
    train_here(setup, ranks, send if ranks.rank == 0 else _nothing)


def train_replicas(job: TrainJob) -> None:
    """Train with several devices of this process."""
    from dbinfer.train.device import import_tensorflow
    from dbinfer.train.setup import make_setup

    setup = make_setup(job)
    import_tensorflow()
    from dbinfer.train.course import follow
    from dbinfer.train.replicas import Replicas

    follow(Replicas(setup), send)


def train_part(given: tuple[TrainJob, Place]) -> None:
    """Train one part of a network that lies split over several processes."""
    from dbinfer.train.setup import make_setup

    job, place = given
    setup = make_setup(job)  # before JAX: mistakes in the data show at once
    # Keras reads it once, when it is imported
    os.environ["KERAS_BACKEND"] = "jax"
    # Keras would import it beside JAX: some 400 MB in each process, for nothing
    sys.modules["tensorflow"] = None  # type: ignore[assignment]
    join(job, place)
    from dbinfer.train.course import follow
    from dbinfer.train.parts import Part

    follow(Part(setup, place.process), send if place.process == 0 else _nothing)


def take_part(given: tuple[str, int]) -> None:
    """Take part in a training with servers until it is over; one line brings the options, another all addresses."""
    role, index = given
    told = json.loads(sys.stdin.readline())
    os.environ.update(told["environment"])
    job = TrainJob(**told["job"])
    address = own_address(job.private_network)
    held = hold_port(address, told["port"])
    setup = _checked_setup(job) if role == "chief" else None  # before TensorFlow, likewise
    _prepare(role, job, told, address)
    send({"event": "listening", "address": f"{address}:{held.getsockname()[1]}", "pid": os.getpid()})
    cluster = json.loads(sys.stdin.readline() or "{}")
    end_with_input()
    if setup is not None:
        from dbinfer.train.chief import lead

        lead(setup, cluster, address)
    elif cluster:
        _serve(role, index, cluster, address)


def _checked_setup(job: TrainJob) -> Any:
    from dbinfer.train.setup import check_images, make_setup

    setup = make_setup(job)
    check_images(setup)
    return setup


def _prepare(role: str, job: TrainJob, told: dict[str, Any], address: str) -> None:
    """Import TensorFlow and settle what cannot be changed later: devices, threads, and where it listens."""
    from dbinfer.train.device import choose_device, import_tensorflow, limit_threads
    from dbinfer.train.listening import listen_only_on

    import_tensorflow()
    # Servers and the chief compute nothing that a GPU would do faster
    choose_device(job.device if role == "worker" else "cpu", told["place"], job.precision)
    limit_threads(told["threads"])
    listen_only_on(address)


def _serve(role: str, index: int, cluster: dict[str, list[str]], address: str) -> None:
    import tensorflow as tf

    from dbinfer.train.listening import check_listening

    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job_name=role, task_index=index, protocol="grpc"
    )
    check_listening(address)
    send({"event": "serving"})
    server.join()


def run_on_loopback(options: Sequence[str]) -> None:
    """Run horovodrun; the server by which its ranks find each other listens on loopback.

    Horovod's own listens on every address and authenticates nobody: whoever reached it could send ranks to another
    address, and take part in the training. Gloo itself takes loopback where all hosts are this one.
    """
    from horovod.runner.http import http_server
    from horovod.runner.launch import run_commandline

    find_port = http_server.find_port

    def here(server: Callable[[tuple[str, int]], Any]) -> Any:
        return find_port(lambda address: server((LOOPBACK, address[1])))

    http_server.find_port = here
    sys.argv[1:] = options
    sys.exit(run_commandline())


def _nothing(event: dict[str, Any]) -> None:
    pass


if __name__ == "__main__":
    main(sys.argv[1:])
