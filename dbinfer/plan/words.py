"""Amounts and times as people say them."""

from __future__ import annotations


def count_text(number: float) -> str:
    """Return 50M, 1.5k or 999, as the options take it."""
    for size, letter in ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:.4g}{letter}"
    return f"{number:.4g}"


def time_text(hours: float) -> str:
    """Return a time as people say it: 5.4 hours, 1 minute, 3.1 seconds, 2.5 days."""
    for size, name in ((24.0, "days"), (1.0, "hours"), (1 / 60, "minutes")):
        if hours >= size * (2 if name == "days" else 1):
            return _plural(f"{hours / size:.3g}", name)
    return _plural(f"{hours * 3600:.3g}", "seconds")


def _plural(number: str, name: str) -> str:
    return f"{number} {name[:-1] if number == '1' else name}"
