"""The variables on the parameter servers, and updates of them that are never lost.

Keras' optimizers read a variable, compute and write it back: of two workers that do so at once one loses its update.
The operations here change the variable on its server, under its lock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from dbinfer.train.options import TrainJob

RHO, BETA1, BETA2, TINY = 0.9, 0.9, 0.999, 1e-7  # as Keras has them
Apply = Callable[[Any, Sequence[Any], Any, Any, Any], None]


class Served:
    """Variables that are spread over the servers: each goes to the one that has least so far.

    Args:
        servers: how many there are.
    """

    def __init__(self, servers: int) -> None:
        self._sizes = [0] * servers

    def make(self, values: Sequence[Any]) -> list[Any]:
        """Return variables with these first values."""
        return [self._one(np.asarray(value)) for value in values]

    def beside(self, variables: Sequence[Any], value: float) -> list[Any]:
        """Return variables of the same shapes on the same servers, filled with a number."""
        return [_on(one.device, np.full(one.shape, value, one.dtype.as_numpy_dtype)) for one in variables]

    def _one(self, value: Any) -> Any:
        server = int(np.argmin(self._sizes))
        self._sizes[server] += value.nbytes
        return _on(f"/job:ps/replica:0/task:{server}/device:CPU:0", value)


def _on(device: str, value: Any) -> Any:
    with tf.device(device):
        return tf.Variable(value, trainable=False)


def _sgd(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        if not slots:
            tf.raw_ops.ResourceApplyGradientDescent(
                var=variable.handle, alpha=rate, delta=gradient, use_locking=True
            )
            return
        tf.raw_ops.ResourceApplyKerasMomentum(
            var=variable.handle,
            accum=slots[0].handle,
            lr=rate,
            grad=gradient,
            momentum=job.momentum,
            use_locking=True,
            use_nesterov=True,
        )

    return apply


def _adagrad(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        tf.raw_ops.ResourceApplyAdagradV2(
            var=variable.handle, accum=slots[0].handle, lr=rate, epsilon=TINY, grad=gradient, use_locking=True
        )

    return apply


def _rmsprop(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        tf.raw_ops.ResourceApplyRMSProp(
            var=variable.handle,
            ms=slots[0].handle,
            mom=slots[1].handle,
            lr=rate,
            rho=RHO,
            momentum=0.0,
            epsilon=TINY,
            grad=gradient,
            use_locking=True,
        )

    return apply


def _adam(job: TrainJob) -> Apply:
    def apply(variable: Any, slots: Sequence[Any], gradient: Any, rate: Any, step: Any) -> None:
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=slots[0].handle,
            v=slots[1].handle,
            # Powers of the number of the step: a counter that all workers write would be a third thing to lock
            beta1_power=tf.pow(BETA1, step),
            beta2_power=tf.pow(BETA2, step),
            lr=rate,
            beta1=BETA1,
            beta2=BETA2,
            epsilon=TINY,
            grad=gradient,
            use_locking=True,
        )

    return apply


def slots_of(job: TrainJob) -> tuple[float, ...]:
    """Return the first values of what the optimizer keeps for each variable."""
    momentum = (0.0,) if job.momentum else ()
    return {"sgd": momentum, "adagrad": (0.1,), "rmsprop": (0.0, 0.0), "adam": (0.0, 0.0)}[job.optimizer]


def applying(job: TrainJob) -> Apply:
    """Return the optimizer: a function (variable, slots, gradient, rate, step from 1 on) that changes them locked."""
    return {"sgd": _sgd, "adagrad": _adagrad, "rmsprop": _rmsprop, "adam": _adam}[job.optimizer](job)
