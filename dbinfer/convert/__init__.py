"""Trained models become OpenVINO IR that carries its manifest and equals its source.

A process of its own reads the source, see dbinfer/base/apart.py: it may come from anybody.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

from dbinfer.base import apart
from dbinfer.base.errors import ModelFileError
from dbinfer.base.progress import OnProgress, silent
from dbinfer.base.report import restored
from dbinfer.convert.options import BESIDE, MANIFEST_NAME, TOKENIZERS, Check, ConvertOptions, ConvertReport
from dbinfer.models.ir import check_output, folder_beside, put_in_place
from dbinfer_udf.manifest import Manifest

__all__ = ["Check", "ConvertOptions", "ConvertReport", "convert"]


def convert(
    source: Path | str,
    output: Path | str,
    options: ConvertOptions | None = None,
    progress: OnProgress = silent,
) -> ConvertReport:
    """Convert a trained model to an IR with its manifest inside, and check that both compute the same.

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
        read += _files_of_tokenizer(options.tokenizer or source)
        job = apart.Job(
            function="dbinfer.convert.conversion:convert_apart",
            arguments=call,
            what=source,
            folder=folder,
            read=read,
            shown=output.parent.absolute(),
        )
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
    """Yield a source's files: itself, its weights, and what its exporter has written beside it.

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
    except OSError:  # the file may be readable all the same, or its own error says more
        return


def _files_of_tokenizer(path: Path) -> Iterator[Path]:
    """Yield the files of a tokenizer that has been named, or that may lie beside a source."""
    yield from (path, path.with_suffix(".bin"))
    yield from (
        path.with_name(name) for name in (*TOKENIZERS, "openvino_tokenizer.bin", "tokenizer_config.json")
    )


def _believed(said: Any, source: Path) -> ConvertReport:
    """Return another process's report, once its types have been checked."""
    try:
        report: ConvertReport = restored(ConvertReport, said)
        if not {field.name for field in fields(Manifest)}.issuperset(report.assumed):
            raise ValueError
    except (ValueError, TypeError) as err:
        raise ModelFileError(f"the process that read {source} gave a report that makes no sense") from err
    return report
