"""Which versions a page shows, of those that a table of results holds."""

from __future__ import annotations

from collections.abc import Sequence

from dbinfer.errors import DataError
from dbinfer.page.options import ReportOptions
from dbinfer.page.rows import Version


def choose(
    versions: Sequence[Version], options: ReportOptions, versioned: bool
) -> tuple[Version, Version | None]:
    """Return the version that is shown, and the one it is compared with, if any.

    Args:
        versions: that the table holds, the one that scored last first.
        versioned: whether the table says so; else `options.model` is taken for what it says.

    Raises:
        DataError: the table has no results of a version that the options name.
    """
    if not versioned:
        if options.against:
            raise DataError(
                "the table of results does not say which version scored a row, so there are no two to compare",
                "Score with a job of 'dbinfer score', which notes model and version.",
            )
        return versions[0], None
    shown = _named(versions, options.model) if options.model else versions[0]
    if options.against is not None:
        return shown, _named(versions, options.against) if options.against else None
    before = [other for other in versions if other.model == shown.model and other != shown]
    earlier = [other for other in before if (other.number or 0) < (shown.number or 0)]
    return shown, next(iter(earlier or before), None)


def _named(versions: Sequence[Version], name: str) -> Version:
    for version in versions:
        # The name alone means the version of this model that scored last
        if name in (str(version), version.model):
            return version
    have = ", ".join(map(str, versions[:5]))
    raise DataError(f"there are no results of {name!r}", f"The table has those of {have}.")
