"""Lists, sizes and files of labels, as typed on the command line."""

from __future__ import annotations

import re
from pathlib import Path

from dbinfer.errors import UsageError


def labels(text: str | None) -> list[str] | None:
    """Return the labels of `a,b,c`, or of the lines of `@FILE`."""
    if text is None:
        return None
    if not text.startswith("@"):
        return [label.strip() for label in text.split(",")]
    path = Path(text[1:])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"the labels file {path} cannot be read: {err}") from err
    return [line.strip() for line in lines if line.strip()]


def numbers(option: str, text: str | None) -> list[float] | None:
    """Return the numbers of `1,2,3`."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as err:
        raise UsageError(
            f"--{option} is {text!r}, but must be numbers such as 255 or 123.7,116.3,103.5"
        ) from err


def size(option: str, text: str | None) -> tuple[int, int] | None:
    """Return (height, width) of `224` or `480x640` (height x width)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})(?:[xX](\d{1,5}))?", text)
    if not match:
        raise UsageError(
            f"--{option} is {text!r}, but must be pixels such as 224 or 480x640 (height x width)"
        )
    return int(match[1]), int(match[2] or match[1])
