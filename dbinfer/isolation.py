"""Whether the host's engine runs a model: the three words of the setting, for the database and per model."""

from __future__ import annotations

from dbinfer.errors import UsageError

ISOLATIONS = ("auto", "always", "never")


def check_isolation(value: str | None) -> None:
    """Return where the value is one of the three words, or None.

    Raises:
        UsageError: it is another one.
    """
    if value is not None and value not in ISOLATIONS:
        raise UsageError(f"--isolation is {value!r}, but must be one of {', '.join(ISOLATIONS)}")
