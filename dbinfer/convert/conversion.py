"""A trained model into an IR, straight down: read > describe > write > compare > put in place.

A process of its own does all but the last, see dbinfer/base/apart.py: the source may come from anybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbinfer.base import apart
from dbinfer.base.errors import ModelFileError
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import restored
from dbinfer.convert.options import BESIDE, MANIFEST_NAME, Check, ConvertOptions, ConvertReport
from dbinfer.models.ir import check_output, folder_beside, put_in_place
from dbinfer_udf.manifest import Manifest

if TYPE_CHECKING:
    from dbinfer.convert.detectors import Detector
    from dbinfer.convert.source import Source
    from dbinfer.models.graph import GraphInfo


@dataclass(frozen=True)
class _Model:
    """A source that is understood, as a graph that is ready to be written."""

    original: Source
    graph: Any
    info: GraphInfo
    manifest: Manifest
    assumed: list[str]
    scaled: bool
    detector: Detector | None = None
    raw: Any = None  # of a detector: the graph as it was, with all its outputs


def convert(
    source: Path | str,
    output: Path | str,
    options: ConvertOptions | None = None,
    progress: OnProgress = silent,
) -> ConvertReport:
    """Convert a trained model to an IR with its manifest inside, and prove that both give the same.

    Args:
        source: a model file, or a SavedModel folder.
        output: the .xml to write; the weights go beside it into .bin.

    Raises:
        ModelFileError: the source is no model of one image, or the output cannot be written.
        ConvertError: the source cannot be read, something needed is not known, or the result differs; then
            nothing is written and what was there stays.
    """
    started = time.monotonic()
    options, source = options or ConvertOptions(), Path(source)
    output = check_output(Path(output))
    with folder_beside(output) as folder:
        call = {"source": source, "output": folder / output.name, "options": options}
        read = [*_files_of(source), *([options.manifest] if options.manifest else [])]
        job = apart.Job(f"{__name__}:convert_apart", call, source, folder, read, output.parent.absolute())
        report = _believed(apart.run(job, progress), source)
        made = [apart.received(folder / output.with_suffix(end).name) for end in (".xml", ".bin")]
        size = sum(path.stat().st_size for path in made)
        written = put_in_place(made[0], output, options.force)
    return replace(
        report,
        source=source,
        output=output,
        weights_file=output.with_suffix(".bin"),
        size=size,
        written=written,
        seconds=time.monotonic() - started,
    )


def _files_of(source: Path) -> Iterator[Path]:
    """Yield what belongs to a source: itself, its weights, and what its exporter has written beside it.

    The weights of an ONNX file may be in another, whose name begins with its own.
    """
    yield source
    if os.path.isdir(source):
        return
    names = (*BESIDE, MANIFEST_NAME, f"{source.stem}.{MANIFEST_NAME}", f"{source.stem}.bin")
    yield from (source.with_name(name) for name in names)
    try:
        with os.scandir(source.parent) as there:
            yield from (Path(one) for one in there if one.name.startswith(source.name) and one.is_file())
    except OSError:  # the file can be read all the same, or its error says more
        return


def _believed(said: Any, source: Path) -> ConvertReport:
    """Return the report that another process gives, once all of it has the types that it must have."""
    try:
        report: ConvertReport = restored(ConvertReport, said)
        if not {field.name for field in fields(Manifest)}.issuperset(report.assumed):
            raise ValueError
    except (ValueError, TypeError) as err:
        raise ModelFileError(f"the process that read {source} gave a report that makes no sense") from err
    return report


def convert_apart(source: str, output: str, options: dict[str, Any], progress: OnProgress) -> ConvertReport:
    """Convert in this process, by the words of another one."""
    manifest = options["manifest"] and Path(options["manifest"])
    return convert_here(
        Path(source), Path(output), ConvertOptions(**{**options, "manifest": manifest}), progress
    )


def convert_here(
    source: Path, output: Path, options: ConvertOptions | None = None, progress: OnProgress = silent
) -> ConvertReport:
    """Convert in this process, which then runs what a SavedModel says; see `convert`."""
    from dbinfer.convert.detectors import cut
    from dbinfer.convert.exporters import with_told
    from dbinfer.convert.formats import FORMATS, find_format

    started = time.monotonic()
    options = options or ConvertOptions()
    source_format = find_format(source)
    progress(Progress(f"reading {source.name} ({source_format})"))
    original = with_told(cut(FORMATS[source_format].read(source), options.outputs), source)
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
    from dbinfer.convert.detectors import chosen_outputs, detector_of, settle_names, with_rows
    from dbinfer.convert.manifest import make_manifest, stated_early
    from dbinfer.models.graph import fix_size, graph_info, output_names
    from dbinfer.models.ir import embed_manifest

    early = stated_early(source, original, options)
    _give_size(original.graph, early, options.layout)
    graph, detector = detector_of(original.graph, options, early.get("task"))
    graph = graph if detector else chosen_outputs(graph, options.outputs)
    info = graph_info(graph, options.layout)
    names = () if detector or len(graph.outputs) == 1 else output_names(graph)
    manifest, assumed, scaled = make_manifest(
        source, original, info, options, names, detector.values if detector else {}
    )
    manifest = _with_origin(manifest, source, source_format)
    fix_size(graph, info, manifest.height, manifest.width, manifest.channels)
    raw = graph.clone() if detector else None
    graph = with_rows(graph, detector, manifest, original.relative_boxes) if detector else graph
    settle_names(graph)
    embed_manifest(graph, manifest)
    return _Model(original, graph, info, manifest, assumed, scaled, detector, raw)


def _give_size(graph: Any, stated: Mapping[str, Any], layout: str | None) -> None:
    """Give an open input its stated size: then the outputs have shapes, by which a detector is recognised."""
    from dbinfer.models.graph import fix_size, graph_info

    if len(graph.inputs) != 1 or not {"height", "width"} <= stated.keys():
        return
    info = graph_info(graph, layout)
    if info.height is None and info.width is None:
        channels = info.channels or stated.get("channels", 3)
        fix_size(graph, info, stated["height"], stated["width"], channels)


def _told(model: _Model) -> str:
    from dbinfer.convert.detectors import on_anchors

    detector = model.detector
    if detector is None:
        return "anchors (recognised, not decoded)" if on_anchors(model.graph) else ""
    return f"{detector.name} (recognised)" if detector.recognised else detector.name


def _write(model: _Model, output: Path, options: ConvertOptions, progress: OnProgress) -> tuple[Check, bool]:
    from dbinfer.convert.compare import compare
    from dbinfer.models.ir import written_beside

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
    from dbinfer.convert.compare import compare
    from dbinfer.models.ir import written_beside

    beside = output.with_name(f".{output.stem}.outputs.xml")
    with written_beside(model.raw, beside, options.weights == "fp16") as raw:
        return compare(model.original, raw, model.info, model.manifest, options)


def _ports(graph: Any) -> tuple[Any, Any]:
    from dbinfer.models.graph import port

    return tuple(port(entry) for entry in graph.inputs), tuple(port(entry) for entry in graph.outputs)


def _with_origin(manifest: Manifest, source: Path, source_format: str) -> Manifest:
    from dbinfer.models.ir import file_or_folder_digest

    origin: dict[str, Any] = {
        "source": source.name,
        "source_format": source_format,
        "source_sha256": file_or_folder_digest(source),
    }
    return replace(manifest, provenance={**manifest.provenance, **origin})
