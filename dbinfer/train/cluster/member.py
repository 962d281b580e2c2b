"""One process of a cluster: `python -m dbinfer.train.cluster.member ROLE INDEX`; the chief trains, the others serve.

Its standard input brings a line with the options, then one with the addresses of all. When it ends, the process that
started this one has ended, here or over ssh, and so does this one.
"""

from __future__ import annotations

import json
import os
import sys
import threading
from typing import Any

from dbinfer.train import processes
from dbinfer.train.hosts import hold_port, own_address
from dbinfer.train.options import TrainJob


def main(role: str) -> None:
    """Take part in a training until it is over."""
    given = json.loads(sys.stdin.readline())
    os.environ.update(given["environment"])
    job = TrainJob(**given["job"])
    address = own_address(job.private_network)
    held = hold_port(address, given["port"])
    plan = _plan(job) if role == "chief" else None  # before TensorFlow: mistakes in the data show at once
    _prepare(role, job, given, address)
    processes.send(
        {"event": "listening", "address": f"{address}:{held.getsockname()[1]}", "pid": os.getpid()}
    )
    cluster = json.loads(sys.stdin.readline() or "{}")
    threading.Thread(target=_end_with_the_command, daemon=True).start()
    if plan is not None:
        from dbinfer.train.cluster.chief import lead

        lead(plan, cluster, address)
    elif cluster:
        _serve(role, cluster, address)


def _plan(job: TrainJob) -> Any:
    from dbinfer.train.plan import check_images, make_plan

    plan = make_plan(job)
    check_images(plan)
    return plan


def _prepare(role: str, job: TrainJob, given: dict[str, Any], address: str) -> None:
    """Import TensorFlow and settle what cannot be changed later: devices, threads, and where it listens."""
    from dbinfer.train.device import import_tensorflow

    import_tensorflow()
    from dbinfer.train.cluster.listening import listen_only_on
    from dbinfer.train.device import choose_device, limit_threads

    # Servers and the chief compute nothing that a GPU would do faster
    choose_device(job.device if role == "worker" else "cpu", given["place"])
    limit_threads(given["threads"])
    listen_only_on(address)


def _serve(role: str, cluster: dict[str, list[str]], address: str) -> None:
    import tensorflow as tf

    from dbinfer.train.cluster.listening import check_listening

    index = int(sys.argv[2])
    server = tf.distribute.Server(
        tf.train.ClusterSpec(cluster), job_name=role, task_index=index, protocol="grpc"
    )
    check_listening(address)
    processes.send({"event": "serving"})
    server.join()


def _end_with_the_command() -> None:
    sys.stdin.read()
    os._exit(0)


if __name__ == "__main__":
    processes.sending_errors(main, sys.argv[1])
    sys.stdout.flush()
    os._exit(0)  # at once: TensorFlow's threads wait for servers that may be gone
