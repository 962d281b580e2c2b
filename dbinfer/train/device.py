"""What computes (GPUs or cores of this host), and TensorFlow's quiet import."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib.util import find_spec
from socket import gethostname
from typing import TYPE_CHECKING, Any

from dbinfer.base.apart import cores
from dbinfer.base.errors import TrainError
from dbinfer.database.pins import install
from dbinfer_udf.host.process import NEEDS, precisions

if TYPE_CHECKING:
    from dbinfer.train.options import TrainJob
    from dbinfer.train.ranks import Ranks


def check_installed() -> None:
    """Raise TrainError where TensorFlow is not installed, without importing it."""
    if find_spec("tensorflow") is None:
        raise _missing()


def import_tensorflow() -> None:
    """Import TensorFlow without its noise; TrainError where it is not installed."""
    # Keras reads it once, when it is imported
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    # TensorFlow writes each function that it traces into the temporary folder; Python would leave it there, compiled
    sys.dont_write_bytecode = True
    from dbinfer.base.quiet import tensorflow

    try:
        tensorflow()
    except ImportError as err:
        raise _missing() from err


def _missing() -> TrainError:
    return TrainError("training needs TensorFlow, which is not installed", install("train"))


def choose_device(device: str, place: int = 0, precision: str = "f32") -> None:
    """Let this process see one GPU of its own, or none.

    Args:
        device: auto (a GPU where there is one), cpu or gpu.
        place: number of this process on its host; processes share GPUs where there are fewer.
        precision: see choose_precision.

    Raises:
        TrainError: a GPU is requested, but there is none; or as choose_precision.
    """
    import tensorflow as tf

    found = gpus(device)
    # Once TensorFlow has computed in this process, it keeps its devices
    with suppress(RuntimeError):
        tf.config.set_visible_devices([found[place % len(found)]] if found else [], "GPU")
    choose_precision(precision, found)


def gpus(device: str) -> Sequence[Any]:
    """Return the GPUs that may be used; none for `cpu`.

    Raises:
        TrainError: a GPU is requested, but there is none.
    """
    import tensorflow as tf

    found = [] if device == "cpu" else tf.config.list_physical_devices("GPU")
    if device == "gpu" and not found:
        raise TrainError(
            "a GPU was requested, but TensorFlow finds none on this host",
            "Leave out --device gpu, or install TensorFlow with CUDA where there is a GPU.",
        )
    return list(found)


def choose_precision(precision: str, computing: Sequence[Any] = ()) -> None:
    """Let the processor multiply in f32 or bf16; weights, sums and what the optimizer keeps are f32 in any case.

    TensorFlow's own rewriting of its graphs and not a policy of Keras: so it serves networks that were built before,
    and the saved model is as usual.

    Args:
        precision: f32 or bf16.
        computing: GPUs, where they compute.

    Raises:
        TrainError: the processor has no instructions for it, or GPUs compute.
    """
    import tensorflow as tf

    if precision == "bf16" and computing:
        raise TrainError(
            "the precision bf16 is for processors, but this host's GPUs compute",
            "Leave out --precision, or add --device cpu.",
        )
    if precision == "bf16" and precision not in precisions():
        raise TrainError(
            f"the precision bf16 needs a processor with one of {', '.join(NEEDS['bf16'])}, which the one of "
            f"{gethostname()} has not",
            "Leave out --precision.",
        )
    # In both cases: a process may train several times
    tf.config.optimizer.set_experimental_options(
        {"auto_mixed_precision_onednn_bfloat16": precision == "bf16"}
    )


def limit_threads(threads: int) -> None:
    """Let TensorFlow compute with this number of threads in this process."""
    import tensorflow as tf

    try:
        tf.config.threading.set_intra_op_parallelism_threads(threads)
        tf.config.threading.set_inter_op_parallelism_threads(max(2, threads))
    except RuntimeError:
        pass  # once TensorFlow has computed in this process, it keeps its threads


def share_cores(job: TrainJob, ranks: Ranks) -> None:
    """Share the host's cores among its ranks, unless `threads` says how many each has; TensorFlow takes all of them.

    A rank that is bound has some for itself already.
    """
    if ranks.size > 1 or job.threads:
        limit_threads(job.threads or max(1, cores() // (1 if job.bind else ranks.local_size)))
