"""The conversion from end to end: read > describe > write > check > put in place."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from dbinfer.convert._check import check
from dbinfer.convert._graph import facts, fix_size, one_output, port, settle_names
from dbinfer.convert._manifest import make_manifest
from dbinfer.convert._options import ConvertOptions
from dbinfer.convert._report import ConvertReport
from dbinfer.convert._write import prepare, put_in_place, written
from dbinfer.convert.formats import FORMATS, find_format
from dbinfer.ir import embed_manifest
from dbinfer_udf.manifest import Manifest


def convert(
    source: Path,
    output: Path,
    options: ConvertOptions | None = None,
    on_step: Callable[[str], None] = lambda step: None,
) -> ConvertReport:
    """Convert a trained model to an IR with its manifest inside, and prove that both give the same.

    Args:
        source: a model file, or a SavedModel folder.
        output: the .xml to write; the weights go beside it into .bin.
        options: see ConvertOptions.
        on_step: is told what is being done, for progress.

    Raises:
        ConvertError: the source cannot be used, something needed is not known, or the result differs; then
            nothing is written and what was there stays.
    """
    started = time.monotonic()
    options = options or ConvertOptions()
    source, output = Path(source), prepare(Path(output))
    source_format = find_format(source)
    on_step(f"reading {source.name} ({source_format})")
    read = FORMATS[source_format].read(source)
    graph = one_output(read.graph, options.output_name)
    known = facts(graph, options)
    manifest, assumed = make_manifest(source, read.name, known, options)
    manifest = _with_origin(manifest, source, source_format)
    fix_size(graph, known, manifest.height, manifest.width)
    settle_names(graph)
    embed_manifest(graph, manifest)
    on_step(f"writing {output.name} ({options.weights})")
    with written(graph, output, options.weights == "fp16") as temporary:
        on_step("comparing source and result")
        result = check(read, temporary, known, manifest, options.limit)
        changed = put_in_place(temporary, output, options.force)
    weights_file = output.with_suffix(".bin")
    return ConvertReport(
        source=source,
        source_format=source_format,
        output=output,
        weights_file=weights_file,
        weights=options.weights,
        size=output.stat().st_size + weights_file.stat().st_size,
        inputs=tuple(port(entry) for entry in graph.inputs),
        outputs=tuple(port(entry) for entry in graph.outputs),
        manifest=manifest,
        assumed=tuple(assumed),
        check=result,
        written=changed,
        seconds=time.monotonic() - started,
    )


def _with_origin(manifest: Manifest, source: Path, source_format: str) -> Manifest:
    origin: dict[str, Any] = {
        "source": source.name,
        "source_format": source_format,
        "source_sha256": _digest(source),
    }
    return replace(manifest, provenance={**manifest.provenance, **origin})


def _digest(source: Path) -> str:
    """Return the sha256 of a file, or of a folder's files with their names in sorted order."""
    if source.is_file():
        return _file_digest(source)
    total = hashlib.sha256()
    for path in sorted(path for path in source.rglob("*") if path.is_file()):
        total.update(f"{path.relative_to(source)}\0{_digest(path)}\n".encode())
    return total.hexdigest()


def _file_digest(path: Path) -> str:
    total = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            total.update(block)
    return total.hexdigest()
