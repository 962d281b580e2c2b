"""Does a converted or quantized network give what its source gives? Both run on the same images."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import cv2
import numpy as np

from dbinfer.base.errors import ConvertError
from dbinfer.base.quiet import quiet
from dbinfer.convert.options import Check, ConvertOptions
from dbinfer.convert.source import SMALLEST, Array, Search, Source, telling_line
from dbinfer.models.agree import Pixels, winner
from dbinfer.models.graph import GraphInfo, input_tensor, output_names
from dbinfer.models.ir import import_openvino
from dbinfer_udf.manifest import Manifest

# A difference above this share of the output is no rounding: no tolerance makes such an IR right
ROUNDING = 0.05
# Of a sigmoid or softmax; a detector of text sees none in made-up images, and all its scores are rounding of 0
SMALLEST_SCORE = 1e-3


def compare(source: Source, ir: Path, info: GraphInfo, manifest: Manifest, options: ConvertOptions) -> Check:
    """Run source and IR, both in float32, on random images in the network's range and compare.

    Raises:
        ConvertError: they differ by more than the tolerance times the source's largest value.
    """
    if source.run is None:
        return Check(reason=source.reason, tolerance=options.limit)
    tensors = [input_tensor(image, manifest, info.layout, info.element) for image in _images(manifest)]
    try:
        expected = [source.run(x) for x in tensors]
    # Frameworks raise what they like; a check that cannot be made is reported and no reason to refuse
    except Exception as err:
        return Check(
            reason=f"{source.framework} could not run it: {telling_line(err)}", tolerance=options.limit
        )
    compiled = import_openvino().compile_model(str(ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = [_run(compiled, x) for x in tensors]
    # each output by its own values: scores of 0..1 beside coordinates of hundreds
    pairs = [_pair([values[place] for values in found], expected) for place in range(len(found[0]))]
    if not all(np.isfinite(magnitude) for _, magnitude in pairs):
        raise ConvertError(
            "the source model returns NaN or infinite values for random images", "Train the model again."
        )
    least = SMALLEST_SCORE if info.activation else SMALLEST
    shares = [difference / max(magnitude, least) for difference, magnitude in pairs]
    # a share that is not a number is the worst
    worst = int(np.argmax(np.nan_to_num(shares, nan=np.inf)))
    difference, magnitude = pairs[worst]
    if not shares[worst] <= options.limit:
        name = f"'s output {output_names(compiled)[worst]}" if len(pairs) > 1 else ""
        raise _refusal(source, ir, tensors[0], (name, difference, magnitude, shares[worst]), options)
    return Check(source.framework, "", len(tensors), difference, magnitude, options.limit)


def _run(compiled: Any, x: Array) -> list[Array]:
    values = compiled(x)
    # copies: the memory is the next inference's, too
    return [np.array(values[place]) for place in range(len(compiled.outputs))]


def _refusal(
    source: Source, ir: Path, x: Array, found: tuple[str, float, float, float], options: ConvertOptions
) -> ConvertError:
    name, difference, magnitude, share = found
    layer = _first_difference(source, Search(ir, x, options.limit, options.weights == "fp16"))
    where = f"; the first layer whose output differs is {layer}" if layer else ""
    return ConvertError(
        f"the converted model{name} differs from its source by {difference:.3g} (of {magnitude:.3g}); "
        f"the tolerance is {options.limit:g}, so nothing was written{where}",
        _cure(source, share, options),
    )


def _first_difference(source: Source, search: Search) -> str:
    """Return the first layer that differs, "" where nobody can tell: the refusal stands without it."""
    if source.first_difference is not None:
        with suppress(Exception), quiet():
            return source.first_difference(search)
    return ""


def _cure(source: Source, share: float, options: ConvertOptions) -> str:
    """Return only what can help this call."""
    cures = []
    if options.weights != "fp32":
        cures.append("use --weights fp32")
    if share <= ROUNDING:
        cures.append(f"allow more with --tolerance {_rounded_up(share):g}")
    if not cures:
        return (
            f"No rounding is that large: OpenVINO and {source.framework} compute this model differently. "
            "Convert it from another format (ONNX, SavedModel, TFLite), or report it to OpenVINO."
        )
    text = ", or ".join(cures)
    return f"{text[0].upper()}{text[1:]}."


def _rounded_up(share: float) -> float:
    """Return the next number above of one digit: 0.0043 gives 0.005."""
    digit = 10.0 ** np.floor(np.log10(share))
    return float(f"{np.ceil(share / digit) * digit:.1g}")


def _images(manifest: Manifest) -> list[Array]:
    """Return noise, a soft picture, a dark and a bright one: uint8, (height, width, channels)."""
    random = np.random.default_rng(0)
    shape = (manifest.height, manifest.width, manifest.channels)
    noise = random.integers(0, 256, shape, dtype=np.uint8)
    coarse = random.integers(0, 256, (4, 4, manifest.channels), dtype=np.uint8)
    soft = cv2.resize(coarse, (manifest.width, manifest.height), interpolation=cv2.INTER_LINEAR).reshape(
        shape
    )
    return [noise, soft, noise // 8, 255 - noise // 8]


def _pair(actual: list[Array], candidates: list[list[Array]]) -> tuple[float, float]:
    """Return (largest difference, largest value) for the source output that `actual` is the image of, over all inputs.

    Frameworks order and name several outputs differently, so the nearest one of equal size is meant.
    """
    # by output; a source may give more than the IR keeps
    each = [one for one in zip(*candidates, strict=True) if one[0].size == actual[0].size]
    if not each:
        sizes = [list(y.shape) for y in candidates[0]]
        raise ConvertError(f"the IR returns a result of shape {list(actual[0].shape)}, its source {sizes}")
    both = [_apart(actual, one) for one in each]
    return min(both, key=lambda pair: np.nan_to_num(pair[0], nan=np.inf))


def _apart(actual: list[Array], expected: Sequence[Array]) -> tuple[float, float]:
    wide = [np.asarray(y, np.float64).reshape(z.shape) for z, y in zip(actual, expected, strict=True)]
    gaps = [float(np.abs(z - y).max()) for z, y in zip(actual, wide, strict=True)]
    return float(np.max(gaps)), float(np.max([np.abs(y).max() for y in wide]))


class Tensors:
    """Makes the tensor that the model's graph takes from an image file, exactly as a deployed model sees it.

    Args:
        layout: NHWC or NCHW.
    """

    def __init__(self, manifest: Manifest, layout: str) -> None:
        self.manifest, self.layout = manifest, layout
        self.pixels = Pixels(manifest)

    def __call__(self, image: bytes) -> Any:
        """Return float32 of one image with the batch in front.

        Raises:
            DataError: it is no image.
        """
        return input_tensor(self.pixels(image), self.manifest, self.layout)


WARM = 3


@dataclass(frozen=True)
class Run:
    """Outputs of a model, one for each image, and the median milliseconds of an inference."""

    outputs: list[Any]
    milliseconds: float


def run(graph: Any, inputs: Sequence[Any], precision: str) -> Run:
    """Run a graph on all inputs, one by one."""
    config = {"INFERENCE_PRECISION_HINT": precision, "PERFORMANCE_HINT": "LATENCY"}
    compiled = import_openvino().Core().compile_model(graph, "CPU", config)
    request, outputs, taken = compiled.create_infer_request(), [], []
    # First inferences also allocate and fill caches
    for _ in range(WARM):
        request.infer({0: inputs[0]})
    for x in inputs:
        started = perf_counter()
        request.infer({0: x})
        taken.append((perf_counter() - started) * 1000)
        # Copied, because the next inference writes into the same memory
        outputs.append(request.get_output_tensor(0).data.copy())
    return Run(outputs, median(taken))


def differences(first: Sequence[Any], second: Sequence[Any]) -> tuple[float, float]:
    """Return the largest and the mean absolute difference of output values."""
    gaps = [np.abs(a.astype(np.float64) - b) for a, b in zip(first, second, strict=True)]
    return float(max(gap.max() for gap in gaps)), float(np.mean([gap.mean() for gap in gaps]))


def accuracy(manifest: Manifest, outputs: Sequence[Any], labels: Sequence[Any]) -> float:
    """Return the share of images whose best class is the label: a class number, or the text of one."""
    right = 0
    for output, label in zip(outputs, labels, strict=True):
        best = winner(manifest, output)
        names = {str(best)} | ({manifest.labels[best]} if best < len(manifest.labels) else set())
        right += str(label) in names
    return right / len(labels)
