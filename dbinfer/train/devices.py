"""The devices of one process that train together, and the strategies of TensorFlow that use them."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from dbinfer.errors import TrainError
from dbinfer.train.device import gpus, limit_threads
from dbinfer.train.options import TrainJob


def make_strategy(job: TrainJob) -> Any:
    """Return TensorFlow's strategy over the devices of this process.

    Raises:
        TrainError: there are fewer GPUs than ranks.
    """
    names = _devices(job)
    if job.strategy == "mirrored":
        # On GPUs TensorFlow's own choice (NCCL), which CPUs lack: there the first device adds the gradients up
        adding = tf.distribute.ReductionToOneDevice() if "cpu" in names[0] else None
        return tf.distribute.MirroredStrategy(names, adding)
    return tf.distribute.experimental.CentralStorageStrategy(names, "/cpu:0")


def _devices(job: TrainJob) -> list[str]:
    found = gpus(job.device)
    if job.threads:
        limit_threads(job.threads)
    if not found:
        # One processor, seen as several: the same sums as on as many GPUs
        parts = [tf.config.LogicalDeviceConfiguration()] * job.ranks
        tf.config.set_logical_device_configuration(tf.config.list_physical_devices("CPU")[0], parts)
        return [f"/cpu:{number}" for number in range(job.ranks)]
    if len(found) < job.ranks:
        raise TrainError(
            f"{job.ranks} ranks were requested, but this host has {len(found)} GPU{'s' * (len(found) > 1)}",
            "The strategies mirrored and central give each rank a GPU of its own: use as many, or --device cpu.",
        )
    return [f"/gpu:{number}" for number in range(job.ranks)]
