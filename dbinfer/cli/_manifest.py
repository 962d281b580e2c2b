"""The options that describe a model, defined once for convert and deploy."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any, NamedTuple

import typer

from dbinfer.cli._values import labels as read_labels
from dbinfer.cli._values import numbers, size


class Stated(NamedTuple):
    """What the user said of a model: keys of the manifest, and the layout of its input."""

    values: dict[str, Any]
    layout: str | None


def stated(
    *,
    task: Annotated[
        str | None, typer.Option(help="classification, segmentation, embedding, detection or tensor.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Class names: a,b,c, or @FILE with one name per line.")
    ] = None,
    input_size: Annotated[
        str | None,
        typer.Option(
            "--input-size",
            "--size",
            help="Size of the input in pixels, if the model leaves it open: 224, or 480x640 (height x width).",
        ),
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="NHWC or NCHW, if the input's shape leaves it open.")
    ] = None,
    color: Annotated[
        str | None, typer.Option(help="Order of channels in training: RGB, BGR or GRAY.")
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(
            help="One number or one per channel, in grey levels 0..255: x = (pixel - mean) / scale."
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help="One number or one per channel, in grey levels 0..255; 255 for an input of 0..1."),
    ] = None,
    resize: Annotated[
        str | None, typer.Option(help="standard, crop, fit_to_window or fit_to_window_letterbox.")
    ] = None,
    interpolation: Annotated[str | None, typer.Option(help="linear, area, cubic or nearest.")] = None,
    pad_value: Annotated[int | None, typer.Option(help="Grey level of the padding, 0..255.")] = None,
    activation: Annotated[
        str | None, typer.Option(help="Turns raw outputs into scores: softmax, sigmoid or none.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score above which a pixel belongs to the mask of a single class, or a box is returned."
        ),
    ] = None,
    iou_threshold: Annotated[
        float | None,
        typer.Option(help="Overlap above which the lower of two boxes of a class is dropped; 1: none is."),
    ] = None,
    max_detections: Annotated[int | None, typer.Option(help="Most boxes returned for an image.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="Inference precision: auto, f32, bf16 or f16.")
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(help="fast (decodes JPEGs at a reduced scale where that is enough) or exact."),
    ] = None,
    l2_normalize: Annotated[bool | None, typer.Option(help="Scale embeddings to length one.")] = None,
) -> Stated:
    """Return the words of the command line as the manifest takes them; None where nothing was said."""
    values = {
        "task": task,
        "labels": read_labels(labels),
        "input_size": size("input-size", input_size),
        "color": color,
        "mean": numbers("mean", mean),
        "scale": numbers("scale", scale),
        "resize": resize,
        "interpolation": interpolation,
        "pad_value": pad_value,
        "activation": activation,
        "threshold": threshold,
        "iou_threshold": iou_threshold,
        "max_detections": max_detections,
        "precision": precision,
        "decode": decode,
        "l2_normalize": l2_normalize,
    }
    return Stated(values, layout)


def takes_manifest(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `stated`; it gets what they say as its argument `said`."""
    shared = inspect.signature(stated, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{k: v for k, v in given.items() if k in own}, said=stated(**{k: given[k] for k in shared}))

    # Typer makes options of the parameters that it sees; this is what it sees
    seen = [*(p for p in own.values() if p.name != "said"), *shared.values()]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in seen]
    run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    return run
