"""A trained model into an IR, straight down: read > describe > write > compare.

Source and IR run on the same images; where they differ by more than rounding, nothing is written.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np

from dbinfer.base.errors import ConvertError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.quiet import quiet
from dbinfer.convert.detectors import Detector, detector_of, on_anchors, with_rows
from dbinfer.convert.exporters import with_told
from dbinfer.convert.formats import FORMATS, find_format
from dbinfer.convert.manifest import check_stated, make_manifest, stated_early
from dbinfer.convert.options import Check, ConvertOptions, ConvertReport
from dbinfer.convert.source import (
    SMALLEST,
    Array,
    Search,
    Source,
    chosen_outputs,
    cut,
    settle_names,
    telling_line,
)
from dbinfer.convert.towers import with_tower
from dbinfer.models.graph import GraphInfo, fix_size, graph_info, input_tensor, output_names, port
from dbinfer.models.ir import (
    core_for,
    embed_manifest,
    file_or_folder_digest,
    put_in_place,
    written_beside,
)
from dbinfer_udf.manifest import Manifest

# A difference above this share of the output is not rounding, so no tolerance makes such an IR right
ROUNDING = 0.05
# Of a sigmoid or softmax: a detector of text finds none in made-up images, and all its scores are 0 but for rounding
SMALLEST_SCORE = 1e-3


@dataclass(frozen=True)
class _Model:
    """A source that has been described, as a graph ready to be written."""

    original: Source
    graph: Any
    info: GraphInfo
    manifest: Manifest
    assumed: list[str]
    scaled: bool
    detector: Detector | None = None
    raw: Any = None  # of a detector: the graph as it was, with all its outputs


def convert_apart(source: str, output: str, options: dict[str, Any], progress: OnProgress) -> ConvertReport:
    """Convert in this process, as another one asks in JSON."""
    paths = {name: options[name] and Path(options[name]) for name in ("manifest", "tokenizer")}
    return convert_here(Path(source), Path(output), ConvertOptions(**{**options, **paths}), progress)


def convert_here(
    source: Path, output: Path, options: ConvertOptions | None = None, progress: OnProgress = silent
) -> ConvertReport:
    """Convert in this process, which then runs what a SavedModel says; see `convert`."""
    started = time.monotonic()
    options = options or ConvertOptions()
    source_format = find_format(source)
    check_stated(source, options)
    progress(Progress(f"reading {source.name} ({source_format})"))
    original = with_told(cut(FORMATS[source_format].read(source), options.outputs), source)
    original = with_tower(original, source, options.outputs, options.tokenizer)
    model = _describe(original, source, source_format, options)
    progress(Progress(f"writing {output.name} ({options.weights})"))
    check, written = _write(model, output, options, progress)
    ports, weights_file = _ports(model.graph), output.with_suffix(".bin")
    return ConvertReport(
        source=source,
        source_format=source_format,
        output=output,
        weights_file=weights_file,
        weights=options.weights,
        size=output.stat().st_size + weights_file.stat().st_size,
        inputs=ports[0],
        outputs=ports[1],
        manifest=model.manifest,
        assumed=tuple(model.assumed),
        check=check,
        detector=_told(model),
        known=original.known.network if original.known else "",
        told=original.told,
        left_out=original.left_out,
        scaled_inside=model.scaled,
        written=written,
        seconds=time.monotonic() - started,
    )


def _describe(original: Source, source: Path, source_format: str, options: ConvertOptions) -> _Model:
    early = stated_early(source, original, options)
    _give_size(original.graph, early, options.layout)
    graph, detector = detector_of(
        original.graph, options, early.get("task"), early.get("anchors"), original.detector
    )
    graph = graph if detector else chosen_outputs(graph, options.outputs)
    info = graph_info(graph, options.layout)
    names = detector.names if detector else output_names(graph)
    names = names if len(names) > 1 else ()
    of_detector = detector.values if detector else {}
    manifest, assumed, scaled = make_manifest(
        source, original, info, options, outputs=names, of_detector=of_detector
    )
    manifest = _with_origin(manifest, source, source_format)
    fix_size(graph, info, manifest.height, manifest.width, manifest.channels)
    raw = graph.clone() if detector else None
    graph = with_rows(graph, detector, manifest, original.relative_boxes) if detector else graph
    settle_names(graph)
    embed_manifest(graph, manifest)
    return _Model(
        original=original,
        graph=graph,
        info=info,
        manifest=manifest,
        assumed=assumed,
        scaled=scaled,
        detector=detector,
        raw=raw,
    )


def _give_size(graph: Any, stated: Mapping[str, Any], layout: str | None) -> None:
    """Give an open input its stated size, so that the outputs have shapes by which a detector is recognised."""
    if len(graph.inputs) != 1 or not {"height", "width"} <= stated.keys():
        return
    info = graph_info(graph, layout)
    if info.height is None and info.width is None:
        channels = info.channels or stated.get("channels", 3)
        fix_size(graph, info, stated["height"], stated["width"], channels)


def _with_origin(manifest: Manifest, source: Path, source_format: str) -> Manifest:
    origin: dict[str, Any] = {
        "source": source.name,
        "source_format": source_format,
        "source_sha256": file_or_folder_digest(source),
    }
    return replace(manifest, provenance={**manifest.provenance, **origin})


def _write(model: _Model, output: Path, options: ConvertOptions, progress: OnProgress) -> tuple[Check, bool]:
    fp16 = options.weights == "fp16"
    with written_beside(model.graph, output, fp16) as temporary:
        progress(Progress("comparing source and result"))
        if model.raw is None:
            check = compare(model.original, temporary, model.info, model.manifest, options)
        elif model.detector and model.detector.head.suppressed:
            check = Check(reason="lists of boxes have no order to compare by", tolerance=options.limit)
        else:
            check = _compare_raw(model, output, options)
        return check, put_in_place(temporary, output, options.force)


def _compare_raw(model: _Model, output: Path, options: ConvertOptions) -> Check:
    """Compare a detector before its head: what the source gives is what the head gets."""
    beside = output.with_name(f".{output.stem}.outputs.xml")
    with written_beside(model.raw, beside, options.weights == "fp16") as raw:
        return compare(model.original, raw, model.info, model.manifest, options)


def _told(model: _Model) -> str:
    detector = model.detector
    if detector is None:
        return "anchors (recognised, not decoded)" if on_anchors(model.graph) else ""
    return f"{detector.name} (recognised)" if detector.recognised else detector.name


def _ports(graph: Any) -> tuple[Any, Any]:
    return tuple(port(entry) for entry in graph.inputs), tuple(port(entry) for entry in graph.outputs)


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
    # Frameworks raise anything; a check that cannot be made is reported, and is no reason to refuse
    except Exception as err:
        return Check(
            reason=f"{source.framework} could not run it: {telling_line(err)}", tolerance=options.limit
        )
    compiled = core_for(ir).compile_model(str(ir), "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    found = [_run(compiled, x) for x in tensors]
    # Each output by its own values: there may be scores of 0..1 beside coordinates of hundreds
    pairs = [_pair([values[place] for values in found], expected) for place in range(len(found[0]))]
    if not all(np.isfinite(magnitude) for _, magnitude in pairs):
        raise ConvertError(
            "the source model returns NaN or infinite values for random images", "Train the model again."
        )
    least = SMALLEST_SCORE if info.activation else SMALLEST
    shares = [difference / max(magnitude, least) for difference, magnitude in pairs]
    # A share that is not a number counts as the worst
    worst = int(np.argmax(np.nan_to_num(shares, nan=np.inf)))
    difference, magnitude = pairs[worst]
    if not shares[worst] <= options.limit:
        name = f"'s output {output_names(compiled)[worst]}" if len(pairs) > 1 else ""
        raise _refusal(source, ir, tensors[0], (name, difference, magnitude, shares[worst]), options)
    return Check(
        framework=source.framework,
        images=len(tensors),
        difference=difference,
        magnitude=magnitude,
        tolerance=options.limit,
    )


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


def _run(compiled: Any, x: Array) -> list[Array]:
    values = compiled(x)
    # Copies, because the next inference uses the same memory
    return [np.array(values[place]) for place in range(len(compiled.outputs))]


def _pair(actual: list[Array], candidates: list[list[Array]]) -> tuple[float, float]:
    """Return (largest difference, largest value) for the source output that `actual` is the image of, over all inputs.

    Frameworks order and name several outputs differently, so the nearest one of equal size is meant.
    """
    # By output; a source may return more than the IR keeps
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


def _refusal(
    source: Source, ir: Path, x: Array, found: tuple[str, float, float, float], options: ConvertOptions
) -> ConvertError:
    name, difference, magnitude, share = found
    layer = _first_difference(source, Search(ir, x, options.limit, options.weights == "fp16"))
    where = f"; the first layer whose output differs is {layer}" if layer else ""
    return ConvertError(
        f"the converted model{name} differs from its source by {difference:.3g} (of {magnitude:.3g}); "
        f"the tolerance is {options.limit:g}, so nothing was written{where}",
        _hint(source, share, options),
    )


def _first_difference(source: Source, search: Search) -> str:
    """Return the first layer that differs, "" where nobody can tell: the refusal stands without it."""
    if source.first_difference is not None:
        with suppress(Exception), quiet():
            return source.first_difference(search)
    return ""


def _hint(source: Source, share: float, options: ConvertOptions) -> str:
    """Return only what can help this call."""
    hints = []
    if options.weights != "fp32":
        hints.append("use --weights fp32")
    if share <= ROUNDING:
        hints.append(f"allow more with --tolerance {_rounded_up(share):g}")
    if not hints:
        return (
            f"No rounding is that large: OpenVINO and {source.framework} compute this model differently. "
            "Convert it from another format (ONNX, SavedModel, TFLite), or report it to OpenVINO."
        )
    text = ", or ".join(hints)
    return f"{text[0].upper()}{text[1:]}."


def _rounded_up(share: float) -> float:
    """Return the next higher number of one digit: 0.0043 gives 0.005."""
    digit = 10.0 ** np.floor(np.log10(share))
    return float(f"{np.ceil(share / digit) * digit:.1g}")
