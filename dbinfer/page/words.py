"""Numbers, keys and times as a page writes them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import datetime, timezone


def number(value: int) -> str:
    """Return a whole number with a comma at each thousand."""
    return f"{value:,}"


def compact(value: int) -> str:
    """Return a whole number in four signs: 950, 1.2k, 35k, 4.0M."""
    for size, unit in ((1_000_000, "M"), (1_000, "k")):
        if value >= size:
            return f"{value / size:.1f}{unit}" if value < 10 * size else f"{value // size}{unit}"
    return str(value)


def short(value: float) -> str:
    """Return a number in about four signs; a score just below 1 is not rounded to it."""
    if not math.isfinite(value):
        return str(value)
    if 0.9995 <= value < 1:
        return f"{math.floor(value * 1e4) / 1e4:.4f}"
    if value == int(value) and abs(value) < 1e6:
        return str(int(value))
    return f"{value:.3f}" if 0.001 <= abs(value) < 1000 else f"{value:.3g}"


def percent(share: float | None) -> str:
    """Return a share as 99.2 %; one just below 1 is not rounded to it."""
    if share is None:
        return "unknown"
    value = math.floor(share * 1000) / 10 if share < 1 and round(share * 1000) == 1000 else share * 100
    return f"{value:.1f} %"


def key(parts: Sequence[str | None]) -> str:
    """Return the columns of a key as one text."""
    return ", ".join("NULL" if part is None else part for part in parts)


def cut(text: object, most: int) -> str:
    """Return a text on one line, without what no reader sees, and not longer than `most` signs."""
    plain = _plain(text)
    return plain if len(plain) <= most else plain[: most - 1] + "…"


def tail(text: object, most: int) -> str:
    """Return the end of a path, where the file's name is, as `cut` returns the beginning of a text."""
    plain = _plain(text)
    return plain if len(plain) <= most else "…" + plain[1 - most :]


def _plain(text: object) -> str:
    return " ".join(
        "".join(sign if sign.isprintable() or sign.isspace() else "?" for sign in str(text)).split()
    )


def moment(at: datetime | None) -> str:
    """Return a time to the minute, in UTC."""
    return at.astimezone(timezone.utc).strftime("%-d %B %Y, %H:%M UTC") if at else ""


def size(count: int) -> str:
    """Return a number of bytes: 1.2 MB."""
    for power, unit in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= power:
            return f"{count / power:.1f} {unit}"
    return f"{count} bytes"
