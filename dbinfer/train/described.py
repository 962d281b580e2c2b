"""What follows from a Keras model of the user's own and the labels of the data: manifest, loss, metrics and optimizer.

A process of its own finds it out (imports Keras), so that the command needs no TensorFlow and keeps the GPUs for those
that train. What the user's file says, and what the model was compiled with, wins over what follows.
"""

from __future__ import annotations

import inspect
import json
import sys
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.convert.known import known_keras, scales_inside
from dbinfer.convert.source import telling_line
from dbinfer.train.finetuning import ending, outputs_for, planned
from dbinfer.train.objective import KINDS, name_of
from dbinfer.train.options import DEFAULT_OPTIMIZER, DEFAULT_RATE, TrainJob
from dbinfer.train.own import CLASSES, Own, users_errors
from dbinfer.train.processes import (
    WORKER,
    encode,
    end,
    follow,
    how_it_ended,
    inherited,
    last_lines,
    send,
    start,
)
from dbinfer.train.source import ONE_LABEL, Source
from dbinfer_models import VOID, numbered
from dbinfer_udf.manifest import Manifest, ManifestError

# One process sums up each image's loss itself; these leave that to Keras
BY_KERAS = ("horovod", "split", "averaging")


def describe_apart(job: TrainJob, source: Source) -> TrainJob:
    """Return the job with what follows from its network and its data; a process of its own runs the user's code.

    Raises:
        UsageError, TrainError: one sentence, of that process.
    """
    if source.task == "detection":
        raise UsageError(
            f"the network {job.network} cannot be trained on boxes: a network of your own learns classes or masks",
            "Train the network finder on boxes.",
        )
    command = [sys.executable, *WORKER, "describe", encode(job), source.task, str(len(source.labels))]
    process = start(command, inherited({}))
    found: dict[str, Any] = {}
    try:
        failure, last = follow(process, found.update)
    finally:
        end(process)
    if failure is not None:
        raise failure
    if "described" not in found:
        raise TrainError(
            f"the process that looked at {job.network} stopped with {how_it_ended(process.returncode)}."
            f"{last_lines(last, 5)}"
        )
    return settled(job, found["described"])


def settled(job: TrainJob, facts: dict[str, Any]) -> TrainJob:
    """Return the job with what follows from its network, and with the options that this leaves open."""
    optimizer = job.optimizer
    if optimizer is None and "optimizer" not in facts:
        optimizer = DEFAULT_OPTIMIZER
    if optimizer is None and job.strategy == "downpour":
        raise UsageError(
            f"the strategy downpour applies the updates itself, and not with "
            f"{facts['optimizer']['class_name']}, with which "
            f"{job.network} was compiled",
            "Choose one: --optimizer adagrad, for example.",
        )
    if not facts["each"] and job.strategy not in BY_KERAS:
        raise UsageError(
            f"the loss of {job.network} gives one number for a whole batch, but the strategy {job.strategy} needs one "
            f"for each image",
            "Leave out its mean over the batch.",
        )
    if job.balance and not facts["each"]:
        raise UsageError(
            f"the loss of {job.network} gives one number for a whole batch, but balance weighs each image",
            "Leave out its mean over the batch, or --balance.",
        )
    if job.balance and facts["task"] == "multilabel" and facts["loss"] != "binary_crossentropy":
        raise UsageError(
            f"the loss of {job.network} is {facts['loss']}, but balance weighs the labels in binary_crossentropy",
            "Leave out the loss of your own, or --balance.",
        )
    # The rate belongs to the optimizer that was compiled
    rate = facts.get("lr", DEFAULT_RATE) if optimizer is None else DEFAULT_RATE
    return replace(job, described=facts, optimizer=optimizer, lr=job.lr or rate)


def told(job: TrainJob) -> str:
    """Return what follows as a line for people."""
    facts = job.described
    manifest = Manifest.from_dict(facts["manifest"])
    size = f"{manifest.height}x{manifest.width} {manifest.color}"
    pixels = f"(pixel - {_short(manifest.mean, 0)}) / {_short(manifest.scale, 1)}"
    scores = facts["ending"] or f"raw scores, {manifest.activation} in SQL"
    optimizer = job.optimizer or facts["optimizer"]["class_name"]
    return (
        f"{job.name}: {manifest.task}, {size}, {pixels}; {facts['outputs']} output{'s' * (facts['outputs'] > 1)}, "
        f"{scores}; loss {facts['loss']}; {facts['metrics'][0]} decides; {optimizer} with lr {job.rate:g}"
    )


def _short(values: tuple[float, ...], default: float) -> str:
    return ", ".join(f"{value:g}" for value in values or (default,))


def describe(job: TrainJob, task: str, labels: int) -> None:
    """Send what follows from the job's network, for data of this task with so many labels; runs the user's code."""
    from dbinfer.train.device import choose_device, import_tensorflow

    import_tensorflow()
    choose_device("cpu")
    send({"event": "described", "described": facts_of(Own.of(job), task, labels)})


def facts_of(network: Own, task: str, labels: int) -> dict[str, Any]:
    """Return what follows from a network, as JSON values.

    Raises:
        UsageError: it does not fit the data, or its file says something that cannot be.
    """
    options, maker, tuned = dict(network.options), network.maker, network.fine_tune is not None
    options = (
        maker.as_features(options)
        if tuned and maker.pretrained(options)
        else maker.with_classes(options, 1 if task == "regression" else labels)
    )
    network.facts.update({"task": task, "labels": labels, "head": ""})
    model = network.make(**options)
    if not model.trainable_variables:
        raise UsageError(
            f"{network.source} has no weights to train", "Set trainable = True for some of its layers."
        )
    ends = ending(model)
    if ends not in KINDS[task].endings:
        raise UsageError(
            f"{network.source} ends with {ends}, but the images of the data have {KINDS[task].truth}",
            f"End it with {_head(task, labels)}. For a new head on trained weights: --fine-tune 0.3",
        )
    outputs = _fitting_outputs(network, model, task, labels)
    manifest = _manifest(network, model, task, options)
    facts = {
        "options": options,
        "task": task,
        "labels": labels,
        "head": network.facts["head"],
        "stages": planned(model, network.fine_tune) if network.fine_tune is not None else [],
        "weights": model.count_params(),
        "outputs": outputs,
        "ending": ends,
        "manifest": manifest.to_dict(),
        "each": True,
    }
    network.facts.update(facts)
    facts["loss"] = name_of(network.given_loss)
    facts["metrics"] = [name_of(one) for one in network.make_metrics()]
    if (optimizer := network.compiled.get("optimizer")) is not None:
        facts |= _optimizer(network, optimizer)
    facts["each"] = _try(network, model, task)
    try:
        return dict(json.loads(json.dumps(facts)))
    except TypeError as err:
        raise UsageError(
            f"the options {options} of {network.source} cannot go to other processes: {err}"
        ) from err


def _optimizer(network: Own, optimizer: Any) -> dict[str, Any]:
    """Return a compiled optimizer as Keras writes it, and its rate: that of the first step, where it has a schedule."""
    import keras

    rate = optimizer._learning_rate
    schedule = isinstance(rate, keras.optimizers.schedules.LearningRateSchedule)
    found = {
        "optimizer": keras.optimizers.serialize(optimizer),
        "lr": float(rate(0) if schedule else optimizer.learning_rate),
    }
    try:
        keras.optimizers.deserialize(json.loads(json.dumps(found["optimizer"])))
    except (TypeError, ValueError) as err:
        raise UsageError(
            f"{network.source} is compiled with {type(optimizer).__name__}, which other processes cannot make",
            "Choose an optimizer of Keras.",
        ) from err
    return found


def _fitting_outputs(network: Own, model: Any, task: str, labels: int) -> int:
    """Return how many scores an image or a pixel gets.

    Raises:
        UsageError: input or output do not fit images and labels.
    """
    given, shape = tuple(model.inputs[0].shape), tuple(model.outputs[0].shape)
    if len(given) != 4 or given[3] not in (1, 3):
        raise UsageError(
            f"the input of {network.source} has the shape {_shown(given)}, but an image is (height, width, "
            f"channels) with 1 or 3 channels"
        )
    if None in given[1:]:
        raise UsageError(
            f"the input of {network.source} has the open shape {_shown(given)}, but training needs a size",
            "Give it one: keras.Input((224, 224, 3)), or --set input_shape=[224,224,3] where it takes that.",
        )
    if task == "segmentation":
        if len(shape) != 4 or shape[:3] != given[:3] or not 1 <= shape[3] <= VOID:
            raise UsageError(
                f"the output of {network.source} has the shape {_shown(shape)}, but masks need one score for each "
                f"pixel of the input, {_shown((*given[:3], 1))}, or one for each of up to {VOID} classes",
                "End it at the size of the input: with Conv2D(1, 1, activation='sigmoid') where a pixel is set or not, "
                "with Conv2D(CLASSES, 1, activation='softmax') where it has a class.",
            )
        if shape[3] == 1 and ending(model) == "softmax":
            raise UsageError(
                f"{network.source} ends with softmax over one score, which is always 1",
                "End it with Conv2D(1, 1, activation='sigmoid').",
            )
        return int(shape[3])
    if len(shape) != 2 or shape[1] not in outputs_for(labels, task):
        named = next((name for name in CLASSES if name in (network.maker.options or ())), "")
        raise UsageError(
            f"the output of {network.source} has the shape {_shown(shape)}, but "
            + (f"the data has {labels} labels" if labels else f"images have {KINDS[task].truth}"),
            f"Leave out --set {named}={network.options[named]}."
            if named in network.options
            else f"End it with {_head(task, labels)}; build(classes) gets the number of labels. For a "
            "new head on trained weights: --fine-tune 0.3",
        )
    return int(shape[1])


def _head(task: str, labels: int) -> str:
    activation = KINDS[task].head
    return f"Dense({labels or 1}{activation and f', activation={activation!r}'})"


def _shown(shape: tuple[Any, ...]) -> str:
    return f"({', '.join('any' if size is None else str(size) for size in shape[1:])})"


def _manifest(network: Own, model: Any, task: str, options: dict[str, Any]) -> Manifest:
    """Return how an image becomes the model's input, and what its output means."""
    _, height, width, channels = model.inputs[0].shape
    known = known_keras(model) if channels == 3 else None
    pixels = known.pixels if known and "scale" in known.pixels else {}
    # What SQL must do with raw scores; one output for two labels is a probability, too
    outputs = model.outputs[0].shape[-1]
    raw = "sigmoid" if outputs == 1 or task == "multilabel" else "softmax"
    activation = "none" if ending(model) or task == "regression" else raw
    values: dict[str, Any] = {
        "name": network.name,
        "color": "GRAY" if channels == 1 else "RGB",
        "scale": [1.0] if scales_inside(model) else [255.0],
        "precision": "auto",
        "activation": activation,
        **pixels,
    }
    values |= _said(network, options)
    names = _names(network, values.get("labels", ()), outputs) if task == "segmentation" else ()
    values |= {
        "task": KINDS[task].task,
        "height": height,
        "width": width,
        "channels": channels,
        "labels": names,
    }
    try:
        return Manifest.from_dict(values)
    except (ManifestError, TypeError, ValueError) as err:
        raise UsageError(f"the manifest of {network.source} cannot be used: {err}") from err


def _names(network: Own, said: Sequence[str], classes: int) -> Sequence[str]:
    """Return the names of a mask's classes: those that the manifest says, else their numbers."""
    if classes == 1 or not said:
        return numbered(classes)
    if len(said) != classes:
        raise UsageError(
            f"the manifest of {network.source} names {len(said)} classes, but its output has {classes}",
            "Name each class, in the order of the outputs.",
        )
    return said


def _said(network: Own, options: dict[str, Any]) -> dict[str, Any]:
    """Return what the file's manifest() says: a dict of some keys, or a whole Manifest."""
    if not (function := network.maker.beside.get("manifest")):
        return {}
    with users_errors(f"manifest() of {network.source} cannot be called", network.source):
        names = inspect.signature(function).parameters
        given = {**network.maker.defaults, **options}
        said = function(**{name: value for name, value in given.items() if name in names})
    if isinstance(said, Manifest):
        return said.to_dict()
    if not isinstance(said, dict):
        raise UsageError(
            f"manifest() of {network.source} gives a {type(said).__name__}, but must give a dict of its keys"
        )
    return said


def _try(network: Own, model: Any, task: str) -> bool:
    """Compute loss and metrics of two made-up images; return whether the loss is one number for each image."""
    import numpy as np

    images = np.zeros((2, *model.inputs[0].shape[1:]), np.float32)
    # Labels and numbers are as large as the output
    truths = np.zeros((2, *model.outputs[0].shape[1:]), np.float32)
    if task in ONE_LABEL:
        truths = np.array([0, 1], np.int32)
    elif task == "segmentation" and truths.shape[-1] > 1:
        truths = np.zeros((*truths.shape[:3], 1), np.int32)
    try:
        loss = network.make_loss()
        shape = tuple(loss(truths, model(images, training=False)).shape)
        model.compile(loss=loss, metrics=network.make_metrics(), jit_compile=False, run_eagerly=True)
        model.test_on_batch(images, truths)
    except Exception as err:
        raise UsageError(
            f"loss or metrics of {network.source} cannot be computed: {type(err).__name__}: {telling_line(err)}",
            "They get class numbers of shape (batch,), and scores of shape (batch, classes); of labels and numbers "
            "both are (batch, outputs), of masks (batch, height, width, 1), or scores (batch, height, width, classes).",
        ) from err
    return shape[:1] == (2,)
