"""The network in training: a train_step that averages gradients over the ranks, and what else they keep equal."""

from __future__ import annotations

from typing import Any

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.images.boxes import check_installed
from dbinfer.train.loader import Seed
from dbinfer.train.options import TrainJob
from dbinfer.train.ranks import Ranks
from dbinfer_models import Network
from dbinfer_udf.manifest import Manifest


def build(network: Network, options: dict[str, Any]) -> tuple[Any, Manifest]:
    """Return the untrained Keras model and its manifest.

    Raises:
        UsageError: the network does not take these options.
    """
    try:
        return network.build(**options), network.manifest(**options)
    except (TypeError, ValueError) as err:
        raise UsageError(f"the network {network.name} cannot be built with {options}: {err}") from err


def distributed(model: Any, ranks: Ranks) -> Any:
    """Return the same network (the same layers and variables) with gradients averaged over the ranks."""
    import keras
    import tensorflow as tf

    class Distributed(keras.Model):  # type: ignore[misc]
        """Keras' own train_step with one line more.

        hvd.DistributedOptimizer is not used: under Keras 3 it trains without an error and averages nothing.
        """

        def train_step(self, data: Any) -> Any:
            images, truths = data
            with tf.GradientTape() as tape:
                scores = self(images, training=True)
                loss = self.compute_loss(images, truths, scores)
            variables = self.trainable_variables
            # The tape knows TensorFlow's variables; Keras 3 wraps them
            gradients = tape.gradient(loss, [variable.value for variable in variables])
            gradients = ranks.average(gradients)  # every rank applies the mean over the global batch
            self.optimizer.apply(gradients, variables)
            # As Keras' own train_step does, private or not: without it the history has no loss
            self._loss_tracker.update_state(loss, sample_weight=tf.shape(images)[0])
            return self.compute_metrics(images, truths, scores)

    return Distributed(inputs=model.inputs, outputs=model.outputs, name=model.name)


def compile_model(model: Any, network: Network, job: TrainJob, jit: bool = False) -> None:
    """Give the model its loss, metrics and optimizer, and make the optimizer's variables.

    Args:
        model: of Keras.
        network: names loss and metrics.
        job: names the optimizer.
        jit: whether XLA compiles the steps; not with Horovod, whose operations are not XLA's.
    """
    import keras

    makers = {
        "adam": lambda: keras.optimizers.Adam(job.lr),
        "sgd": lambda: keras.optimizers.SGD(job.lr, momentum=job.momentum, nesterov=job.momentum > 0),
        "adagrad": lambda: keras.optimizers.Adagrad(job.lr),
        "rmsprop": lambda: keras.optimizers.RMSprop(job.lr),
    }
    model.compile(
        optimizer=makers[job.optimizer](),
        loss=network.make_loss(),
        metrics=network.make_metrics(),
        jit_compile=jit,
    )
    # Now: its variables are broadcast and loaded before the first step, which would make them
    model.optimizer.build(model.trainable_variables)


def synchronise(model: Any, ranks: Ranks) -> None:
    """Make all ranks start alike: rank 0's weights and optimizer state."""
    ranks.broadcast([*model.weights, *model.optimizer.variables])


def average_batch_norm(model: Any, ranks: Ranks) -> None:
    """Give every rank the moving statistics over all ranks: each has seen its own images only.

    The variance over all is the mean of the ranks' variances plus how far their means lie apart:
    mean(variance + mean^2) - mean(mean)^2.
    """
    from keras import layers

    norms = [layer for layer in model.layers if isinstance(layer, layers.BatchNormalization)]
    if ranks.size == 1 or not norms:
        return
    means = [norm.moving_mean.value for norm in norms]
    squares = [norm.moving_variance + norm.moving_mean**2 for norm in norms]
    averaged = ranks.average([*means, *squares])
    for norm, mean, square in zip(norms, averaged[: len(norms)], averaged[len(norms) :], strict=True):
        norm.moving_mean.assign(mean)
        norm.moving_variance.assign(square - mean**2)


def reseed(model: Any, seed: Seed) -> None:
    """Set the state of dropout and the like to what this rank must have in this epoch, also after a resume."""
    # What is a variable, but no weight, may be the state of a random generator
    known = {id(variable) for variable in model.weights}
    for number, variable in enumerate(v for v in model.variables if id(v) not in known):
        if "seed_generator_state" in variable.path or variable.dtype in ("uint32", "int64"):
            state = seed.generator(number).integers(0, 2**31, variable.shape)
            variable.assign(state.astype(variable.dtype))


def check_task(network: Network, task: str) -> None:
    """Raise TrainError where the network cannot learn what the data shows."""
    own = network.manifest().task
    if own != task:
        raise TrainError(
            f"the data is for {task}, but the network {network.name} is for {own}",
            "Choose another network, or data of the other kind (masks, boxes or classes).",
        )


def check_boxes(network: Network, job: TrainJob) -> None:
    """Raise where a network that finds boxes cannot be trained or judged so."""
    if not network.finds_boxes:
        return
    if job.strategy != "horovod":
        raise UsageError(
            f"the strategy {job.strategy} does not train networks that find boxes, as {network.name} does",
            "Leave out --strategy.",
        )
    check_installed()
