"""Makes a page: reads both tables in one snapshot, works out the figures, and writes one HTML file that loads and
runs nothing.
"""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.base.version import __version__
from dbinfer.database.connection import session
from dbinfer.report import figures, sections
from dbinfer.report.asked import Asked, ask
from dbinfer.report.figures import SHOWN_CLASSES, Answer, Map, accuracy, answers, compare, peaks
from dbinfer.report.options import PageReport, ReportOptions
from dbinfer.report.pictures import (
    BoxSection,
    Mask,
    Thumbnail,
    box_section,
    boxed,
    evaluate,
    most_objects,
    pictures,
    thumbnail,
)
from dbinfer.report.sections import (
    SHOWN,
    ClassSection,
    Fact,
    Job,
    MaskSection,
    ModelFacts,
    Tile,
    VersionSection,
    class_section,
    mask_section,
    moment,
    percent,
    short,
    version_section,
)
from dbinfer.report.tables import Key, Row, Rows, Source, choose, find, images_of


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
    asked: Asked | None = None
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
        yield from (tile.key for tile in self.asked.found) if self.asked else ()

    def rows(self) -> Iterator[Key]:
        """Yield the keys of all rows that the page names."""
        yield from self.keys()
        for section in (self.masks, self.boxes):
            yield from (one.key for one in section.shown) if section else ()
        yield from (point.key for point in self.map.points) if self.map else ()


TEMPLATES = Path(__file__).parent / "templates"


def environment() -> Environment:
    """Return Jinja with escaping, our filters, and errors for names that are not there."""
    jinja = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    for name in ("number", "compact", "short", "percent", "key", "cut", "tail"):
        jinja.filters[name] = getattr(sections, name)
    jinja.globals |= {"shown_classes": SHOWN_CLASSES, "peaks": peaks}
    return jinja


def render(page: Any, thumbs: Any, names: Any) -> str:
    """Return the page as HTML; the browser may use its one style sheet and pictures within it, and nothing else."""
    style = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    digest = b64encode(hashlib.sha256(style.encode()).digest()).decode()
    # Ours, not the database's
    trusted = Markup(style)
    template = environment().get_template("page.html")
    return template.render(
        page=page, thumbs=thumbs, names=names, style=trusted, style_hash=f"sha256-{digest}"
    )


def write(path: Path, html: str) -> int:
    """Write the page and return its size in bytes.

    Raises:
        DataError: the file cannot be written.
    """
    data = html.encode("utf-8", "replace")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    except OSError as err:
        raise DataError(
            f"cannot write {str(path)!r}: {err.strerror or err}", "Name another file with --out."
        ) from err
    return len(data)


# A difference in dice that people see
MARGIN = 0.01


def agreement(masks: Sequence[Mask]) -> float | None:
    """Return the mean IoU of the masks of both versions; None where no image has two."""
    both = [mask.agreement for mask in masks if mask.agreement is not None]
    return float(np.mean(both)) if both else None


def compare_masks(masks: Sequence[Mask], newer: str, older: str) -> VersionSection | None:
    """Return what changed between two versions; None where no image has two masks."""
    both = [mask for mask in masks if mask.agreement is not None]
    if not both:
        return None
    summary = [Fact(short(agreement(both) or 0.0), f"mean IoU of both on {len(both):,} images")]
    gains = [
        (mask.dice - mask.before, mask) for mask in both if mask.dice is not None and mask.before is not None
    ]
    if not gains:
        changed = sorted(both, key=lambda mask: (mask.agreement or 0.0, mask.key))
        sentence = "There are no true masks, so neither is known to be better."
        return VersionSection(newer, older, sentence, summary, [_list("Least alike", changed)])
    won = [mask for gain, mask in sorted(gains, key=lambda one: -one[0]) if gain > MARGIN]
    lost = [mask for gain, mask in sorted(gains, key=lambda one: one[0]) if gain < -MARGIN]
    summary += [
        Fact(f"{len(won):,}", f"won: dice better by more than {MARGIN}"),
        Fact(f"{len(lost):,}", f"lost: dice worse by more than {MARGIN}"),
        Fact(short(float(np.mean([mask.dice for _, mask in gains]))), f"mean dice of {newer}"),
        Fact(short(float(np.mean([mask.before for _, mask in gains]))), f"mean dice of {older}"),
    ]
    sentence = (
        f"Of {len(gains):,} masks {len(won):,} became better, {len(lost):,} worse, the others hardly changed."
    )
    return VersionSection(newer, older, sentence, summary, [_list("Won", won), _list("Lost", lost)])


def _list(title: str, masks: Sequence[Mask]) -> tuple[str, list[Tile], int]:
    tiles = []
    for mask in masks[:SHOWN]:
        alike = f"IoU of both {short(mask.agreement or 0.0)}"
        if mask.dice is None or mask.before is None:
            tiles.append(Tile(mask.key, alike))
            continue
        state = "right" if mask.dice > mask.before else "wrong"
        tiles.append(Tile(mask.key, f"dice {short(mask.before)} → {short(mask.dice)}", (alike,), state))
    return title, tiles, len(masks) - len(tiles)


MOST_MASKS, MOST_REASONS, MOST_BAD, COLOURS = 400, 10, 50, 10


def make(
    table: str, predictions: str, options: ReportOptions, dsn: str | None, progress: OnProgress
) -> PageReport:
    """Make the page; see dbinfer.report.report."""
    options.check()
    if options.query is not None:
        return _answered(table, options.query, options, dsn, progress)
    with session(dsn, readonly=True) as conn, conn.cursor() as cur:
        # A job may go on meanwhile: all statements of the page see the same rows
        cur.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        progress(Progress("reading results"))
        rows = Rows(cur, find(cur, table, predictions, options))
        return _Maker(conn, rows, options, progress).make()


def _answered(
    table: str, query: str, options: ReportOptions, dsn: str | None, progress: OnProgress
) -> PageReport:
    """Make the page of a query of estimate or find."""
    with session(dsn) as conn:
        asked, keys = ask(conn, query, progress)
        # what it keeps is paid for, whatever becomes of the page
        conn.commit()
        page = Page(asked.title, table, "", "", summary=asked.summary, notes=asked.notes, asked=asked)
        thumbs: dict[Key, Thumbnail] = {}
        names: dict[Key, str] = {}
        try:
            if keys:
                with conn.cursor() as cur:
                    rows = Rows(cur, images_of(cur, table, options))
                    names = rows.names(keys)
                thumbs = _thumbnails(conn, rows.source, keys, progress)
        except DataError as err:
            asked.found = []
            page.notes.append(f"There are no pictures: {err.message}.")
        size = write(options.out, render(page, thumbs, names))
    return PageReport(options.out, size, table, "", model=None, against=None, errors=0, **asked.figures)


def _thumbnails(
    conn: Connection, source: Source, keys: Sequence[Key], progress: OnProgress
) -> dict[Key, Thumbnail]:
    """Return a small picture for each key."""
    found = {key: Thumbnail(problem="the image is not in the table any more") for key in keys}
    for done, picture in enumerate(pictures(conn, source, keys), 1):
        found[picture.key] = thumbnail(picture.image)
        progress(Progress("reading images", done, len(keys), "images"))
    return found


class _Maker:
    """One page in the making; `figures` are those of the PageReport."""

    def __init__(self, conn: Connection, rows: Rows, options: ReportOptions, progress: OnProgress) -> None:
        self.conn, self.rows, self.options, self.progress = conn, rows, options, progress
        self.source = rows.source
        self.newer, self.older = choose(rows.versions(), options, self.source.versioned)
        self.models = self._models()
        self.labels = self.models[0].labels if self.models else ()
        self.figures: dict[str, Any] = {}
        self.overlays: dict[Key, Thumbnail] = {}
        self.page = Page(self._title(), str(self.source.table), str(self.source.predictions), self._when())

    def _models(self) -> list[ModelFacts]:
        cur = self.rows.cur
        if self.newer.model is None:
            return [sections.named_facts(cur, self.options.model)] if self.options.model else []
        found = [
            sections.model_facts(cur, version.model, version.number)
            for version in (self.newer, self.older)
            if version is not None and version.model is not None
        ]
        return [facts for facts in found if facts is not None]

    def _title(self) -> str:
        shown = self.models[0].name if self.models and not self.newer.model else str(self.newer)
        return shown if self.models or self.newer.model else f"Results in {self.source.predictions}"

    def _when(self) -> str:
        return moment(self.newer.last)

    def make(self) -> PageReport:
        """Return what was written."""
        most = {
            "masks": min(MOST_MASKS, self.options.sample),
            "vectors": min(figures.MOST, self.options.sample),
        }
        sample = self.rows.sample(self.newer, most.get(self.source.kind, self.options.sample))
        self._bad_rows()
        self._facts(sample)
        fill = {
            "classes": self._classes,
            "masks": self._masks,
            "boxes": self._boxes,
            "vectors": self._vectors,
        }
        if self.source.kind in fill and any(row.result[0] is not None for row in sample):
            fill[self.source.kind](sample)
        self.page.models, self.page.jobs = (
            self.models,
            sections.jobs(self.rows.cur, self.source, self.newer),
        )
        names = self.rows.names(list(dict.fromkeys(self.page.rows())))
        html = render(self.page, self._thumbnails(), names)
        return self._report(len(sample), write(self.options.out, html))

    def _report(self, sampled: int, size: int) -> PageReport:
        older = str(self.older) if self.older else None
        return PageReport(
            out=self.options.out,
            bytes=size,
            table=str(self.source.table),
            predictions=str(self.source.predictions),
            model=self.models[0].name if self.models else str(self.newer) if self.newer.model else None,
            against=older if self.page.comparison else None,
            rows=self.newer.rows,
            sampled=sampled,
            **self.figures,
        )

    def _bad_rows(self) -> None:
        """Fill in bad rows and their reasons."""
        self.page.reasons, noted = self.rows.reasons(self.newer, MOST_REASONS)
        self.figures["errors"] = noted + self.newer.rows - self.newer.results
        self.page.bad = [
            Bad(key, reason or "no result: the image is NULL or could not be used")
            for key, reason in self.rows.bad(self.newer, MOST_BAD)
        ]

    def _facts(self, sample: Sequence[Row]) -> None:
        """Fill in the figures at the top and what a reader must know of them."""
        self.page.summary = [
            Fact(f"{self.newer.results:,}", "images with a result"),
            Fact(f"{self.figures['errors']:,}", "bad rows"),
        ]
        if len(sample) < self.newer.rows:
            self._note(
                f"This page shows a sample: {len(sample):,} of {self.newer.rows:,} rows, chosen by the hash of their "
                "keys. The numbers of images with a result and of bad rows are those of all rows, all other "
                "figures those of the sample."
            )
        if gone := sum(not row.found for row in sample):
            self._note(f"{gone:,} of these rows have no image in {self.source.table} any more.")
        if self.source.versioned and not self.models:
            self._note(
                f"{self.newer} is not in the registry any more, or you may not run it; so its provenance is missing."
            )

    def _note(self, text: str) -> None:
        self.page.notes.append(text)

    def _figure(self, name: str, value: float | None, caption: str) -> None:
        self.figures[name] = value
        if value is not None:
            # Shares of images; the others are means over masks
            shown = percent(value) if self.page.classes else short(value)
            self.page.summary.append(Fact(shown, caption))

    def _classes(self, sample: Sequence[Row]) -> None:
        found = answers(sample, self.labels)
        self.page.classes = class_section(found, self.labels)
        known = {answer.name for answer in found} | set(self.labels)
        if strange := [answer for answer in found if answer.truth is not None and answer.truth not in known]:
            some = ", ".join(sorted({str(answer.truth) for answer in strange})[:3])
            self._note(f"{len(strange):,} images have labels that no class has, and count as wrong: {some}.")
        self._figure(
            "accuracy", accuracy(found), f"accuracy on {sum(a.truth is not None for a in found):,} labels"
        )
        if self.older is not None:
            self._compare(found, answers(self.rows.sample(self.older, self._as_many()), self.labels))

    def _as_many(self) -> int:
        """Return what makes the sample of the other version take the same share of the keys."""
        assert self.older is not None
        whole = self.newer.rows <= self.options.sample
        return self.older.rows if whole else max(1, self.options.sample * self.older.rows // self.newer.rows)

    def _compare(self, found: Sequence[Answer], before: Sequence[Answer]) -> None:
        two = compare(found, before)
        if two.images:
            self.page.comparison = version_section(two, str(self.newer), str(self.older))
            self._figure("agreement", two.agreement, f"agreement with {self.older}")

    def _masks(self, sample: Sequence[Row]) -> None:
        keys = [row.key for row in sample if row.found and row.result[0]]
        masks: list[Mask] = []
        for picture in pictures(self.conn, self.source, keys, self.newer, self.older):
            masks.append(evaluate(picture))
            self.progress(Progress("reading masks", len(masks), len(keys), "images"))
        self.page.masks = mask_section(masks)
        measured = [mask for mask in masks if mask.dice is not None]
        for name in ("dice", "iou"):
            values = [getattr(mask, name) for mask in measured]
            caption = f"mean {'IoU' if name == 'iou' else name} of {len(values):,} masks"
            self._figure(name, float(np.mean(values)) if values else None, caption)
        if self.older is not None:
            self.page.comparison = compare_masks(masks, str(self.newer), str(self.older))
            self._figure("agreement", agreement(masks), f"mean IoU with the masks of {self.older}")
        self.overlays = {mask.key: mask.overlay for mask in masks}

    def _boxes(self, sample: Sequence[Row]) -> None:
        self.page.boxes = box_section(sample)
        chosen = most_objects(sample)
        for done, picture in enumerate(pictures(self.conn, self.source, list(chosen)), 1):
            self.page.boxes.shown.append(boxed(picture, chosen[picture.key]))
            self.progress(Progress("reading images", done, len(chosen), "images"))
        self.page.boxes.shown.sort(key=lambda one: (-one.objects, one.key))
        self.page.summary.append(Fact(f"{sum(one.found for one in self.page.boxes.counts):,}", "objects"))

    def _vectors(self, sample: Sequence[Row]) -> None:
        self.page.map = figures.lay_out(sample, COLOURS)

    def _thumbnails(self) -> dict[Key, Thumbnail]:
        """Return a small picture for each key that the page shows."""
        keys = [key for key in dict.fromkeys(self.page.keys()) if key not in self.overlays]
        return _thumbnails(self.conn, self.source, keys, self.progress) | self.overlays
