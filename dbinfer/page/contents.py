"""All that a page shows, as its template reads it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import NamedTuple

from dbinfer._version import __version__
from dbinfer.page.boxes import BoxSection
from dbinfer.page.provenance import Job, ModelFacts
from dbinfer.page.rows import Key
from dbinfer.page.sections import ClassSection, Fact, MaskSection, VersionSection
from dbinfer.page.vectors import Map
from dbinfer.page.words import moment


class Bad(NamedTuple):
    """A row without a result, and why."""

    key: Key
    reason: str


@dataclass
class Page:
    """Sections and figures; what a kind of result does not have stays empty."""

    title: str
    table: str
    predictions: str
    scored: str
    made: str = field(default_factory=lambda: moment(datetime.now(timezone.utc)))
    version: str = __version__
    summary: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    classes: ClassSection | None = None
    comparison: VersionSection | None = None
    masks: MaskSection | None = None
    boxes: BoxSection | None = None
    map: Map | None = None
    reasons: list[tuple[str, int]] = field(default_factory=list)
    bad: list[Bad] = field(default_factory=list)
    jobs: list[Job] = field(default_factory=list)
    models: list[ModelFacts] = field(default_factory=list)

    def keys(self) -> Iterator[Key]:
        """Yield the keys of all pictures but the masks, which come with theirs."""
        for section in (self.classes, self.comparison):
            yield from section.keys() if section else ()
        yield from (point.key for point in (self.map.points if self.map else ()) if point.shown)
        yield from (bad.key for bad in self.bad)

    def rows(self) -> Iterator[Key]:
        """Yield the keys of all rows that the page names."""
        yield from self.keys()
        for section in (self.masks, self.boxes):
            yield from (one.key for one in section.shown) if section else ()
        yield from (point.key for point in self.map.points) if self.map else ()
