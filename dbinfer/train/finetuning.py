"""Fine-tuning: a network with trained weights gets a new head; first that learns alone, then the last layers with it.

As Keras' guide has it (keras.io/guides/transfer_learning): two trainings in a row, the second at a smaller rate, and
BatchNormalization stays in inference mode, because the statistics of few images would spoil what it has learned.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.train import checkpoint
from dbinfer.train.objective import KINDS
from dbinfer.train.options import TrainJob
from dbinfer.train.report import RUN

HEAD = "head"  # the folder, within the run's, of the training of the head alone
# Layers behind which the scores are still those of the layer before them, or of its activation
BEHIND = ("Activation", "Softmax", "Flatten", "Reshape", "Dropout", "Identity")
PASSING = ("Reshape", "Flatten", "Permute", "Identity", "Dropout", "Squeeze")


def plan(job: TrainJob) -> list[TrainJob]:
    """Return what is trained one after the other: the job itself; of a fine-tuning the head alone before it."""
    if not job.fine_tune:
        return [job]
    head = replace(job, fine_tune=0.0, epochs=job.head_epochs, out=str(job.folder / HEAD))
    last = replace(job, lr=job.rate * job.fine_tune_rate)
    return [head, last] if job.head_epochs else [last]


def stages(job: TrainJob) -> Iterator[TrainJob]:
    """Yield the jobs of the plan; the last one, once the head is trained, begins with its model.

    With --resume the one that was interrupted goes on.
    """
    *before, last = plan(job)
    for head in before:
        done = job.resume and (head.folder / RUN).is_file()
        if not job.resume:
            # Otherwise a later --resume would go on with what an earlier run has left
            (head.folder / RUN).unlink(missing_ok=True)
            checkpoint.clear(job.folder)
        if not done:
            yield head
        resume = job.resume if done and checkpoint.epochs(job.folder) else ""
        begin = str(head.folder / f"{job.name}.keras")
        last = replace(last, resume=resume, described={**job.described, "begin": begin})
    yield last


def with_head(model: Any, labels: int, task: str = "classification") -> tuple[Any, str]:
    """Return a network for so many labels, and where its new head stands, in words; "" where it keeps its own.

    A new head is a Dense layer. It takes what the old one took (the last Dense layer, or a convolution of one pixel),
    or the features that the network ends in.

    Args:
        model: Functional Keras model of one image.
        labels: how many the data has.
        task: of the data; decides on the head's activation.

    Raises:
        UsageError: the network does not end in a list of features.
    """
    import keras

    old, scores, kind = head_of(model), model.outputs[0], KINDS[task]
    fits = len(scores.shape) == 2 and scores.shape[1] in outputs_for(labels, task)
    if old is not None and fits and ending(model) in kind.endings:
        return model, ""
    features = scores if old is None or old not in model.layers else old.input
    if len(features.shape) == 4:
        features = keras.layers.GlobalAveragePooling2D()(features)
    if len(features.shape) != 2 or (old is not None and old not in model.layers):
        raise UsageError(
            f"the network {model.name} cannot get a new head: it ends in "
            + (f"a model within it, with the head {old.name}" if old else f"the shape {features.shape[1:]}"),
            "Write a file with a function build(classes) that puts a Dense(classes) on its features.",
        )
    outputs = outputs_for(labels, task)[0]
    dense = keras.layers.Dense(outputs, activation=kind.head or None, name=old.name if old else None)
    where = f"in place of {old.name}" if old else "on the features"
    return keras.Model(model.inputs[0], dense(features), name=model.name), where


def outputs_for(labels: int, task: str = "classification") -> tuple[int, ...]:
    """Return how many outputs a network of so many labels may have; a new head has the first."""
    if task == "regression":
        return (1,)
    return (2, 1) if labels == 2 and task == "classification" else (labels,)


def ending(model: Any) -> str:
    """Return the activation that the model ends with: softmax, sigmoid, or nothing for raw scores."""
    for step in reversed(list(getattr(model, "operations", None) or model.layers)):
        if hasattr(step, "layers"):
            return ending(step)
        if type(step).__name__ in PASSING:
            continue
        name = getattr(getattr(step, "activation", None), "__name__", type(step).__name__.lower())
        return name if name in ("softmax", "sigmoid") else ""
    return ""


def head_of(model: Any) -> Any:
    """Return the layer that makes scores of features; None where the model ends in features."""
    import keras

    for step in reversed(model.operations):
        if hasattr(step, "operations"):
            return head_of(step)
        if isinstance(step, keras.layers.Dense):
            return step
        if isinstance(step, keras.layers.Conv2D) and tuple(step.output.shape[1:3]) == (1, 1):
            return step
        if type(step).__name__ not in BEHIND:
            break
    return None


def layers_of(model: Any) -> Iterator[Any]:
    """Yield the layers of a model, and those of models inside it."""
    for layer in model.layers:
        yield from layers_of(layer) if hasattr(layer, "layers") else [layer]


def freeze(model: Any, share: float) -> list[Any]:
    """Let only the last layer and a share of those before it learn, and return these: the first one first.

    BatchNormalization does not learn, which in Keras also means that it computes as in inference.

    Args:
        model: Keras model.
        share: of the layers with weights, counted from the end; 0: the head alone.
    """
    import keras

    for layer in layers_of(model):
        layer.trainable = True  # some may come frozen: of a network that was fine-tuned before
    layers = [layer for layer in layers_of(model) if layer.trainable_weights]
    norms = [layer for layer in layers[:-1] if isinstance(layer, keras.layers.BatchNormalization)]
    others = [layer for layer in layers if layer not in norms]
    first = len(others) - 1 - math.ceil(share * (len(others) - 1))
    for layer in [*norms, *others[:first]]:
        layer.trainable = False
    return others[first:]


def planned(model: Any, share: float) -> list[dict[str, Any]]:
    """Return what learns in each stage, as JSON values; the model is left as in the last one."""
    found = []
    for part in (0.0, share) if share else (0.0,):
        layers = freeze(model, part)
        weights = sum(math.prod(one.shape) for one in model.trainable_variables)
        found.append({"first": layers[0].name, "layers": len(layers), "weights": weights})
    return found


def told_stages(job: TrainJob) -> list[str]:
    """Return the steps of a fine-tuning as lines for people; none for another training."""
    if job.fine_tune is None:
        return []
    facts = job.described
    new = f"new, {facts['outputs']} outputs {facts['head']}" if facts["head"] else "as it is"
    lines = [f"head: {new}"]
    jobs = plan(job)
    for stage, found in zip(jobs, facts["stages"][-len(jobs) :], strict=True):
        what = "the head alone"
        if stage.fine_tune:
            what = f"the last {found['layers']} layers, from {found['first']} on, BatchNormalization as in inference"
        share = f"{found['weights']:,} of {facts['weights']:,} weights learn"
        lines.append(f"{len(lines)}. {what}: {stage.epochs} epochs with lr {stage.rate:g}; {share}")
    return lines
