"""Writes an IR's two files beside their place and renames them into it, so that nobody reads half a model."""

from __future__ import annotations

import filecmp
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from dbinfer.errors import ModelFileError
from dbinfer.ir._openvino import import_openvino, last_line


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
    # The .xml last: whoever sees the new .xml finds the new weights
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
