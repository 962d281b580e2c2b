"""OpenVINO IR files: read and refused where they hold no model of one image, written in one step, with the
manifest inside (rt_info).
"""

from __future__ import annotations

import filecmp
import hashlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from xml.etree import ElementTree

from dbinfer.base.errors import ModelFileError
from dbinfer_udf.errors import ModelError
from dbinfer_udf.host.tokenizers import add_where_needed
from dbinfer_udf.manifest import Manifest, ManifestError
from dbinfer_udf.model.device import new_core


def import_openvino() -> Any:
    """Return the module openvino, imported so that it opens no socket and writes nothing into $HOME."""
    # A module that is None raises ImportError, and OpenVINO then goes on without telemetry
    sys.modules.setdefault("openvino_telemetry", None)  # type: ignore[arg-type]
    import openvino

    return openvino


def last_line(err: BaseException) -> str:
    """Return the line of an OpenVINO error that says what is wrong: the last; those before it name C++ sources."""
    lines = str(err).strip().splitlines()
    return lines[-1].strip() if lines else type(err).__name__


MANIFEST_PATH = ["dbinfer", "manifest"]
MODEL_API_SECTION = "model_info"
# where OpenVINO puts an ONNX file's metadata_props
ONNX_SECTION = "framework"


def embed_manifest(graph: Any, manifest: Manifest) -> None:
    """Write `manifest` into the model's rt_info: whole, and what Model API knows as `model_info`."""
    for key, value in manifest.model_info().items():
        graph.set_rt_info(value, [MODEL_API_SECTION, key])
    graph.set_rt_info(manifest.to_json(), MANIFEST_PATH)


def read_manifest(graph: Any) -> Manifest | None:
    """Return the manifest that `embed_manifest` wrote, or None where there is none.

    Raises:
        ModelFileError: there is one, but it cannot be used.
    """
    if not graph.has_rt_info(MANIFEST_PATH):
        return None
    try:
        return Manifest.from_json(graph.get_rt_info(MANIFEST_PATH).astype(str))
    except ManifestError as err:
        raise ModelFileError(
            f"the model's manifest cannot be used: {err}",
            "Convert the model again with the version of dbinfer that deploys it.",
        ) from err


def read_model_info(graph: Any) -> dict[str, str]:
    """Return what other tools wrote for Model API; {} where there is nothing."""
    return _section(graph, MODEL_API_SECTION)


def read_properties(graph: Any) -> dict[str, str]:
    """Return the metadata of the ONNX file that the graph was made of; {} where there is none."""
    return _section(graph, ONNX_SECTION)


def _section(graph: Any, name: str) -> dict[str, str]:
    if not graph.has_rt_info([name]):
        return {}
    found = graph.get_rt_info(name).value
    return {key: str(graph.get_rt_info([name, key]).value) for key in found}


BLOCK = 1 << 20


@dataclass(frozen=True)
class ModelFile:
    """An IR as it lies on disk.

    Attributes:
        path: of the .xml file.
        graph: the openvino.Model.
        digest: sha256 over the sha256 of the .xml and that of the .bin, in hex.
        older_digest: sha256 over the bytes of both files, which clients on Python 3.10 wrote into registries.
    """

    path: Path
    graph: Any
    digest: str
    older_digest: str


def read_model(path: Path, of_image: bool = True) -> ModelFile:
    """Read `model.xml` with the `model.bin` beside it.

    Args:
        of_image: it must take a single image; else it may be what `dbinfer convert` makes such a model of.

    Raises:
        ModelFileError: a file is missing, broken or truncated, or the graph takes no single image.
    """
    weights = check_files(path)
    _check_xml(path)
    graph = _read_graph(path, weights)
    if of_image:
        _check_ports(path, graph)
    return ModelFile(path, graph, *digests(path, weights))


def check_files(path: Path) -> Path:
    """Return the .bin of an .xml file.

    Raises:
        ModelFileError: one of them is missing.
    """
    if path.suffix.lower() != ".xml":
        raise ModelFileError(
            f"{path} is not an OpenVINO IR (.xml)", f"Convert it first: dbinfer convert {path} -o model.xml"
        )
    if not path.is_file():
        raise ModelFileError(f"there is no file {path}", "Give the path of the IR's .xml file.")
    weights = path.with_suffix(".bin")
    if not weights.is_file():
        raise ModelFileError(
            f"the weights of {path} are missing: there is no file {weights}",
            "Put the .bin file next to the .xml file.",
        )
    return weights


def _check_xml(path: Path) -> None:
    try:
        root = ElementTree.parse(path).getroot()
    except ElementTree.ParseError as err:
        raise ModelFileError(f"{path} is not valid XML: {err}", "Convert the model again.") from err
    if root.tag != "net":
        raise ModelFileError(f"{path} is XML but not an OpenVINO IR: its root is <{root.tag}>, not <net>")


def _read_graph(path: Path, weights: Path) -> Any:
    try:
        return core_for(path).read_model(path, weights)
    except ModelError as err:
        raise ModelFileError(f"{path}: {err.message}", err.hint) from err
    except Exception as err:  # OpenVINO raises what its C++ raises: IndexError, MemoryError, ...
        size = weights.stat().st_size
        raise ModelFileError(
            f"OpenVINO cannot read {path} with {weights.name} ({size} bytes): {last_line(err)}",
            "The .bin file may be truncated or belong to another model; convert or copy both files again.",
        ) from err


def core_for(path: Path) -> Any:
    """Return OpenVINO's core, with the operations of its tokenizers where an IR has such."""
    openvino = import_openvino()
    core = new_core(openvino)
    add_where_needed(openvino, core, str(path))
    return core


def _check_ports(path: Path, graph: Any) -> None:
    if not graph.outputs:
        raise ModelFileError(f"{path} has no output", "Convert the model again.")
    if len(graph.inputs) != 1:
        names = ", ".join(port.get_any_name() for port in graph.inputs if port.get_names())
        raise ModelFileError(f"{path} has {len(graph.inputs)} inputs ({names}); an image model has one")
    rank = graph.input(0).get_partial_shape().rank
    if rank.is_dynamic or rank.get_length() != 4:
        shape = graph.input(0).get_partial_shape()
        raise ModelFileError(
            f"the input of {path} has the shape {shape}; an image input has 4 dimensions, [N,H,W,C] or [N,C,H,W]"
        )


def file_digest(path: Path, *more: Any) -> str:
    """Return the sha256 of a file in hex; `more` hash objects are fed the same bytes."""
    own = hashlib.sha256()
    # hashlib.file_digest does the same from Python 3.11 on only
    with path.open("rb") as file:
        while block := file.read(BLOCK):
            for total in (own, *more):
                total.update(block)
    return own.hexdigest()


def digests(xml: Path, weights: Path) -> tuple[str, str]:
    """Return the digest of the two files, and the older form of it."""
    joined = hashlib.sha256()
    each = [bytes.fromhex(file_digest(path, joined)) for path in (xml, weights)]
    return hashlib.sha256(b"".join(each)).hexdigest(), joined.hexdigest()


def file_or_folder_digest(path: Path) -> str:
    """Return the sha256 of a file, or of a folder's files with their names in sorted order."""
    if path.is_file():
        return file_digest(path)
    total = hashlib.sha256()
    for part in sorted(part for part in path.rglob("*") if part.is_file()):
        total.update(f"{part.relative_to(path)}\0{file_digest(part)}\n".encode())
    return total.hexdigest()


def check_output(output: Path) -> Path:
    """Return the path of the .xml to write.

    Raises:
        ModelFileError: it does not end in .xml, or its folder is not there.
    """
    if output.suffix.lower() != ".xml":
        raise ModelFileError(
            f"the output {output} must end in .xml",
            # a folder's own path has no name: . or /
            f"Use for example: -o {output.with_suffix('.xml') if output.name else output / 'model.xml'}",
        )
    if not output.parent.is_dir():
        raise ModelFileError(f"the output's folder {output.parent} does not exist", "Create it first.")
    return output


@contextmanager
def folder_beside(output: Path) -> Iterator[Path]:
    """Give an empty folder beside `output`, and remove it with what is left in it.

    Raises:
        ModelFileError: it cannot be made.
    """
    # Beside it, not in /tmp: renaming is atomic within one file system only
    try:
        folder = TemporaryDirectory(prefix=f".{output.stem}.", dir=output.parent.absolute())
    except OSError as err:
        raise _unwritable(output, err.strerror) from err
    with folder as path:
        yield Path(path)


@contextmanager
def written_beside(graph: Any, output: Path, fp16: bool = False) -> Iterator[Path]:
    """Write the IR under a temporary name beside `output`, give its .xml, and remove what is left of it."""
    # Beside it, not in /tmp: renaming is atomic within one file system only
    temporary = output.with_name(f".{output.stem}.{os.getpid()}.xml")
    try:
        _save(graph, temporary, fp16)
        yield temporary
    finally:
        for path in (temporary, temporary.with_suffix(".bin")):
            path.unlink(missing_ok=True)


def _save(graph: Any, path: Path, fp16: bool) -> None:
    try:
        import_openvino().save_model(graph, str(path), compress_to_fp16=fp16)
    except (OSError, RuntimeError) as err:
        raise _unwritable(path, last_line(err)) from err


def _unwritable(path: Path, why: str | None) -> ModelFileError:
    return ModelFileError(
        f"cannot write to {path.parent.absolute()}: {why}",
        "Check that the disk has room and that you may write there.",
    )


def put_in_place(temporary: Path, output: Path, force: bool) -> bool:
    """Rename the temporary IR to `output`; return False where the same content was there already.

    Raises:
        ModelFileError: other content is there and `force` is off.
    """
    # The .xml last: a reader of the new .xml finds the new weights
    pairs = [(temporary.with_suffix(end), output.with_suffix(end)) for end in (".bin", ".xml")]
    there = [new for _, new in pairs if new.exists()]
    # shallow would believe size and time
    if len(there) == 2 and all(filecmp.cmp(old, new, shallow=False) for old, new in pairs):
        return False
    if there and not force:
        raise ModelFileError(
            f"{there[-1]} already exists with different content",
            "Use --force to overwrite it, or choose another output.",
        )
    try:
        for old, new in pairs:
            old.replace(new)
    except OSError as err:
        raise ModelFileError(f"{output} cannot be written: {err.strerror}") from err
    return True
