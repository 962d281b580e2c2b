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


COUNTS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
HOURS = {"": 1, "h": 1, "m": 1 / 60, "min": 1 / 60, "s": 1 / 3600}
AMOUNT = r"((?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)"


def count(option: str, text: str | None) -> float | None:
    """Return the number of `50M`, `1.5k`, `2000000` or `2e6`."""
    if text is None:
        return None
    match = re.fullmatch(AMOUNT + r"\s*([kmgbt]?)", text.strip().lower())
    if not match or not float(match[1]):
        raise UsageError(f"--{option} is {text!r}, but must be a number above 0 such as 2000000, 1.5k or 50M")
    return float(match[1]) * COUNTS[match[2]]


def hours(option: str, text: str | None) -> float | None:
    """Return the hours of `6`, `6h`, `90m` or `30s`."""
    if text is None:
        return None
    match = re.fullmatch(AMOUNT + r"\s*(h|m|min|s|)", text.strip().lower())
    if not match or not float(match[1]):
        raise UsageError(f"--{option} is {text!r}, but must be a time above 0 such as 6, 6h or 90m")
    return float(match[1]) * HOURS[match[2]]


def pixels(option: str, text: str | None) -> tuple[int, int] | None:
    """Return (width, height) of `500x375` (width x height)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", text.strip())
    if not match:
        raise UsageError(f"--{option} is {text!r}, but must be width x height in pixels such as 500x375")
    return int(match[1]), int(match[2])
