"""The network in training: with Keras' own steps, or as a function of its variables."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import keras
import numpy as np

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train.course import Schedule, StepReports
from dbinfer.train.finetuning import layers_of
from dbinfer.train.loader import Pipeline, Seed
from dbinfer.train.options import DEFAULT_OPTIMIZER, TrainJob
from dbinfer.train.own import Own
from dbinfer.train.ranks import Among, Ranks
from dbinfer.train.report import OnEvent
from dbinfer_models import Network
from dbinfer_udf.manifest import Manifest

QUIETLY: dict[str, Any] = {"return_dict": True, "verbose": 0}


def build(network: Network, options: dict[str, Any]) -> tuple[Any, Manifest]:
    """Return the untrained Keras model and its manifest.

    Raises:
        UsageError: the network does not take these options.
    """
    try:
        return network.build(**options), network.manifest(**options)
    except (TypeError, ValueError) as err:
        raise UsageError(f"the network {network.name} cannot be built with {options}: {err}") from err


def compile_model(model: Any, network: Network, job: TrainJob, jit: bool = False) -> None:
    """Give the model its loss, metrics and optimizer, and make the optimizer's variables.

    Args:
        model: of Keras.
        network: names loss and metrics.
        job: names the optimizer.
        jit: whether XLA compiles the steps; not with Horovod, whose operations are not XLA's.
    """
    makers: dict[str, Callable[[], Any]] = {
        "adam": lambda: keras.optimizers.Adam(job.rate),
        "sgd": lambda: keras.optimizers.SGD(job.rate, momentum=job.momentum, nesterov=job.momentum > 0),
        "adagrad": lambda: keras.optimizers.Adagrad(job.rate),
        "rmsprop": lambda: keras.optimizers.RMSprop(job.rate),
    }
    if job.optimizer is None and isinstance(network, Own):
        # No option names another than the one that the user's network was compiled with
        optimizer = network.make_optimizer(job.rate)
    else:
        optimizer = makers[job.optimizer or DEFAULT_OPTIMIZER]()
    model.compile(
        optimizer=optimizer,
        loss=network.make_loss(),
        metrics=network.make_metrics(),
        jit_compile=jit,
    )
    # Now and not in the first step: its variables are broadcast and loaded before that
    model.optimizer.build(model.trainable_variables)


def distributed(model: Any, ranks: Ranks) -> Any:
    """Return the same network (the same layers and variables) with gradients averaged over the ranks."""
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


def synchronise(model: Any, ranks: Ranks) -> None:
    """Make all ranks start alike, with rank 0's weights and optimizer state."""
    ranks.broadcast([*model.weights, *model.optimizer.variables])


def average_batch_norm(model: Any, ranks: Ranks | Among) -> None:
    """Give every rank the moving statistics over all ranks: each has only seen its own images.

    The variance over all is the mean of the ranks' variances plus how far their means lie apart:
    mean(variance + mean^2) - mean(mean)^2.
    """
    # Those that are frozen are alike, and averaging would round them
    norms = [
        layer
        for layer in layers_of(model)
        if isinstance(layer, keras.layers.BatchNormalization) and layer.trainable
    ]
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
    # Variables that are not weights may be the state of a random generator
    known = {id(variable) for variable in model.weights}
    for number, variable in enumerate(v for v in model.variables if id(v) not in known):
        if "seed_generator_state" in variable.path or variable.dtype in ("uint32", "int64"):
            state = seed.generator(number).integers(0, 2**31, variable.shape)
            variable.assign(state.astype(variable.dtype))


class Meter(keras.callbacks.Callback):  # type: ignore[misc]
    """Sets the learning rate before each step and reports the progress after it."""

    def __init__(self, model: Any, schedule: Schedule, on_event: OnEvent, epoch: int, steps: int) -> None:
        super().__init__()
        self.rate = schedule.at(0)
        self.epoch = epoch
        self._optimizer, self._schedule, self._steps = model.optimizer, schedule, steps
        self._tell = StepReports(on_event, epoch, steps)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self.rate = self._schedule.at((self.epoch - 1) * self._steps + batch)
        self._optimizer.learning_rate = self.rate

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._tell(batch + 1)


def one_epoch(
    model: Any, pipeline: Pipeline, meter: Meter, ranks: Ranks, callbacks: Sequence[Any] = ()
) -> dict[str, float]:
    """Train one epoch and return loss and metrics, the mean over all ranks (they saw equally many images).

    Args:
        callbacks: more of Keras.
    """
    import tensorflow as tf

    epoch = meter.epoch
    try:
        # One epoch per call, with its own number: between epochs ranks pool statistics, and rank 0 writes files
        history = model.fit(
            pipeline.training(epoch),
            initial_epoch=epoch - 1,
            epochs=epoch,
            steps_per_epoch=pipeline.steps,
            callbacks=[meter, *callbacks],
            shuffle=False,
            verbose=0,
        )
    except tf.errors.OpError as err:
        # tf.data passes on no more than the text of an exception; the pipeline has kept it whole
        raise pipeline.failure or err from err
    values = {name: float(series[-1]) for name, series in history.history.items()}
    return mean_over(values, 1.0, ranks)


def evaluate(model: Any, pipeline: Pipeline | None, ranks: Ranks) -> dict[str, float]:
    """Return val_loss and metrics over the validation images of all ranks; a rank without any has None."""
    import tensorflow as tf

    names = ["loss", *(metric.name for metric in model.metrics if metric.name != "loss")]
    # A rank without images has no weight, but takes part in the gather that the others wait for
    values, weight = dict.fromkeys(names, 0.0), 0.0
    if pipeline is not None:
        try:
            values = {name: float(v) for name, v in model.evaluate(pipeline.validation(), **QUIETLY).items()}
        except tf.errors.OpError as err:
            raise pipeline.failure or err from err
        weight = float(pipeline.length)
    return {f"val_{name}": value for name, value in mean_over(values, weight, ranks).items()}


def mean_over(values: dict[str, float], weight: float, ranks: Ranks) -> dict[str, float]:
    """Return the weighted mean over the ranks."""
    gathered = [entry for entry in ranks.gather((values, weight)) if entry[1]]
    weights = [entry[1] for entry in gathered]
    return {
        name: float(np.average([entry[0][name] for entry in gathered], weights=weights))
        for name in sorted(gathered[0][0])
    }


class Metrics:
    """Keras' own loss and metrics over all images of an epoch.

    Args:
        model: the network; only the shape of its output is used.
        network: gives loss and metrics.
    """

    def __init__(self, model: Any, network: Network) -> None:
        import tensorflow as tf

        scores = keras.Input(model.output.shape[1:], dtype=model.output.dtype)
        self._same = keras.Model(scores, keras.layers.Identity()(scores))
        self._same.compile(loss=network.make_loss(), metrics=network.make_metrics(), jit_compile=False)
        # Not test_on_batch, which starts over with every batch
        self._step = tf.function(self._same.test_step, reduce_retracing=True)

    def reset(self) -> None:
        """Start over."""
        self._same.reset_metrics()

    def add(self, scores: Any, truths: Any) -> None:
        """Add one batch."""
        self._step((scores, truths))

    def values(self, prefix: str = "") -> dict[str, float]:
        """Return loss and metrics, means over all images."""
        return {f"{prefix}{name}": float(value) for name, value in self._same.get_metrics_result().items()}


class Pure:
    """A Keras model whose step has no side effects.

    Attributes:
        trainable: its weights that gradients change.
        statistics: its other weights: the moving statistics of batch normalisation.

    Args:
        model: Keras model; its variables give shapes and first values, and are not touched.
        network: gives the loss.
    """

    def __init__(self, model: Any, network: Network) -> None:
        self._model = model
        check_losses(model, network.name)
        self._loss = keras.losses.get(network.make_loss())
        weights = {id(variable) for variable in model.weights}
        self._others = list(model.non_trainable_variables)
        # Other variables are the states of random generators, such as dropout's
        self._drawn = [id(variable) not in weights for variable in self._others]
        self.trainable = list(model.trainable_variables)
        self.statistics = [one for one, drawn in zip(self._others, self._drawn, strict=True) if not drawn]

    def states(self, seed: Seed, step: int) -> list[Any]:
        """Return the random generators' states for one step: the same whenever the step is repeated."""
        random = [one for one, drawn in zip(self._others, self._drawn, strict=True) if drawn]
        return [
            seed.generator(step, number).integers(0, 2**31, one.shape).astype(one.dtype)
            for number, one in enumerate(random)
        ]

    def gradients(
        self, values: Sequence[Any], others: tuple[Sequence[Any], Sequence[Any]], images: Any, truths: Any
    ) -> Any:
        """Return gradients of the loss summed over the images, the scores, and the statistics afterwards.

        Args:
            values: of the trainable variables.
            others: values of the statistics, and states of the random generators.
            images, truths: one batch.
        """
        import tensorflow as tf

        statistics, states = map(iter, others)
        arranged = [next(states if drawn else statistics) for drawn in self._drawn]
        with tf.GradientTape() as tape:
            tape.watch(values)
            scores, after = self._model.stateless_call(values, arranged, images, training=True)
            loss = self.loss(truths, scores)
        changed = [one for one, drawn in zip(after, self._drawn, strict=True) if not drawn]
        return tape.gradient(loss, values), scores, changed

    def scores(self, values: Sequence[Any], statistics: Sequence[Any], images: Any) -> Any:
        """Return the scores as the network is used: without dropout, with the statistics."""
        import tensorflow as tf

        kept = iter(statistics)
        pairs = zip(self._others, self._drawn, strict=True)
        arranged = [tf.zeros(one.shape, one.dtype) if drawn else next(kept) for one, drawn in pairs]
        return self._model.stateless_call(values, arranged, images, training=False)[0]

    def loss(self, truths: Any, scores: Any) -> Any:
        """Return the sum of the images' losses."""
        return summed(self._loss, truths, scores)


def summed(loss: Any, truths: Any, scores: Any) -> Any:
    """Return the sum of the images' losses, where `loss` gives one for each image, or for each of its pixels."""
    import tensorflow as tf

    each = loss(truths, scores)
    return tf.reduce_sum(tf.reduce_mean(tf.reshape(each, (tf.shape(each)[0], -1)), axis=1))


def check_losses(model: Any, name: str) -> None:
    """Raise TrainError where layers have losses of their own, for a strategy that sums up the images' losses itself."""
    if model.losses:
        raise TrainError(
            f"{name} has losses of layers (kernel_regularizer), which this strategy leaves out",
            "Leave out --strategy, or such regularizers.",
        )
