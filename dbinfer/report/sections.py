"""What the sections of a report show: figures and the pictures chosen for them, and what is known of the model and the
jobs that ran it; numbers, keys and times as a report writes them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.database.sql import TableName, read
from dbinfer.report import figures
from dbinfer.report.figures import Answer, Bin, Calibration, Cell, Comparison, Count, Pair
from dbinfer.report.pictures import Mask, worst_first
from dbinfer.report.tables import Key, Source, Version, columns


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


SHOWN, IN_A_CELL, IN_ALL_CELLS, SHOWN_MASKS = 18, 8, 320, 24
LEVELS, DOUBTFUL = 4, 0.05


class Tile(NamedTuple):
    """A picture with its caption; state is `right`, `wrong` or empty."""

    key: Key
    head: str
    lines: tuple[str, ...] = ()
    state: str = ""


class Fact(NamedTuple):
    """One large figure and what it is."""

    value: str
    caption: str


@dataclass(frozen=True)
class MatrixCell:
    """A cell of the confusion matrix: how many, how dark (0 to 4), and some of its images."""

    truth: str
    name: str
    right: bool
    number: int
    level: int
    anchor: str
    tiles: tuple[Tile, ...]


@dataclass(frozen=True)
class ClassSection:
    """Figures of a classification, see dbinfer.report.figures."""

    counts: list[Count]
    labelled: bool
    histogram: list[Bin]
    calibration: Calibration | None
    confusion: list[list[MatrixCell]]
    mistakes: list[Tile]
    uncertain: list[Tile]

    def keys(self) -> Iterator[Key]:
        """Yield the keys of all pictures."""
        for tile in (*self.mistakes, *self.uncertain):
            yield tile.key
        for cell in (cell for line in self.confusion for cell in line):
            yield from (tile.key for tile in cell.tiles)


@dataclass(frozen=True)
class MaskSection:
    """Masks, some of them shown; dice is empty without true masks."""

    dice: list[Bin]
    covered: list[Bin]
    shown: list[Mask]


@dataclass(frozen=True)
class VersionSection:
    """Two versions beside each other; `lists` are (title, pictures, how many more there are)."""

    newer_name: str
    older_name: str
    sentence: str
    summary: list[Fact]
    lists: list[tuple[str, list[Tile], int]] = field(default_factory=list)

    def keys(self) -> Iterator[Key]:
        """Yield the keys of all pictures."""
        for _, tiles, _ in self.lists:
            yield from (tile.key for tile in tiles)


def class_section(found: Sequence[Answer], labels: Sequence[str]) -> ClassSection:
    """Return the figures of a classification."""
    labelled = any(a.truth is not None for a in found)
    scored = sorted((a for a in found if math.isfinite(a.score)), key=lambda a: (a.score, a.key))
    return ClassSection(
        counts=figures.counts(found, labels),
        labelled=labelled,
        histogram=figures.histogram([a.score for a in found], [a.wrong for a in found]),
        calibration=figures.calibration(found),
        confusion=_matrix(figures.confusion(found, labels), found) if labelled else [],
        mistakes=[tile(a) for a in reversed(scored) if a.wrong][:SHOWN],
        uncertain=[tile(a) for a in scored[:SHOWN]],
    )


def tile(answer: Answer) -> Tile:
    """Return the picture of an answer with its class, score and label."""
    score = (f"score {short(answer.score)}",) if math.isfinite(answer.score) else ()
    if answer.truth is None:
        return Tile(answer.key, answer.name, score)
    label = f"label {answer.truth}"
    return Tile(answer.key, answer.name, (*score, label), "wrong" if answer.wrong else "right")


def _matrix(lines: list[list[Cell]], found: Sequence[Answer]) -> list[list[MatrixCell]]:
    answers = {answer.key: answer for answer in found}
    # Mistakes first, the frequent ones before the rare ones, as long as the page has room for pictures
    cells = sorted((cell for line in lines for cell in line), key=lambda cell: (cell.right, -len(cell.keys)))
    shown: dict[tuple[str, str], tuple[Tile, ...]] = {}
    room = IN_ALL_CELLS
    for cell in cells:
        chosen = sorted((answers[key] for key in cell.keys), key=lambda a: _certain(a, cell.right))[
            :IN_A_CELL
        ]
        shown[cell.truth, cell.name] = tuple(tile(answer) for answer in chosen[:room])
        room = max(0, room - len(chosen))
    most = {
        right: max((len(c.keys) for c in cells if c.right == right), default=1) for right in (True, False)
    }
    return [
        [
            MatrixCell(
                truth=cell.truth,
                name=cell.name,
                right=cell.right,
                number=len(cell.keys),
                level=math.ceil(LEVELS * len(cell.keys) / (most[cell.right] or 1)),
                anchor=f"cell-{row}-{column}",
                tiles=shown[cell.truth, cell.name],
            )
            for column, cell in enumerate(line)
        ]
        for row, line in enumerate(lines)
    ]


def _certain(answer: Answer, right: bool) -> tuple[float, Key]:
    """Return what sorts least certain right answers, or most certain wrong ones, to the front."""
    score = answer.score if math.isfinite(answer.score) else 0.0
    return (score if right else -score), answer.key


def mask_section(masks: Sequence[Mask]) -> MaskSection:
    """Return the figures of masks."""
    dice = [mask.dice for mask in masks if mask.dice is not None]
    covered = [mask.covered for mask in masks if mask.covered is not None]
    return MaskSection(figures.histogram(dice), figures.histogram(covered), worst_first(masks)[:SHOWN_MASKS])


def version_section(two: Comparison, newer: str, older: str) -> VersionSection:
    """Return what changed between two versions."""
    summary = [Fact(percent(two.agreement), f"agreement on {two.images:,} images")]
    if two.newer is None or two.older is None:
        sentence = f"Both versions say the same of {two.agreed:,} of {two.images:,} images."
        return VersionSection(newer, older, sentence, summary, [_list("Changed", two.changed)])
    summary += [Fact(f"{len(two.won):,}", "won: only the newer is right")]
    summary += [Fact(f"{len(two.lost):,}", "lost: only the older is right")]
    summary += [
        Fact(percent(two.newer), f"accuracy of {newer}"),
        Fact(percent(two.older), f"accuracy of {older}"),
    ]
    both = [pair for pair in two.changed if pair[0].wrong and pair[1].wrong]
    lists = [_list("Won", two.won), _list("Lost", two.lost), _list("Other changes", both)]
    return VersionSection(newer, older, _verdict(two, newer, older), summary, lists)


def _verdict(two: Comparison, newer: str, older: str) -> str:
    if len(two.won) == len(two.lost):
        return f"Neither is better: {len(two.won):,} won, {len(two.lost):,} lost."
    better = newer if len(two.won) > len(two.lost) else older
    chance = short(two.chance) if two.chance and two.chance >= 0.001 else "less than 0.001"
    doubt = ", which may be chance" if (two.chance or 0) > DOUBTFUL else ""
    return (
        f"{better} is right more often{doubt}. Two equally good versions would differ as much with a probability of "
        f"{chance} (McNemar's test)."
    )


def _list(title: str, pairs: Sequence[Pair]) -> tuple[str, list[Tile], int]:
    tiles = []
    for new, old in pairs[:SHOWN]:
        label = (f"label {new.truth}",) if new.truth is not None else ()
        state = "" if new.truth is None else "wrong" if new.wrong else "right"
        tiles.append(Tile(new.key, f"{old.name} → {new.name}", (f"score {short(new.score)}", *label), state))
    return title, tiles, len(pairs) - len(tiles)


JOBS = 5


@dataclass(frozen=True)
class ModelFacts:
    """A version of a model.

    Attributes:
        labels: names of its classes; facts: (term, value) as the page shows them.
    """

    name: str
    labels: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


class Job(NamedTuple):
    """One run of a job, in words; rows are those that it scored."""

    name: str
    detail: str
    rows: int
    rate: str
    seconds: str


def model_facts(cur: Cursor, name: str, number: int | None = None, alias: str = "") -> ModelFacts | None:
    """Return what the registry says of a version: of the number, the alias, else the active one; None if it is gone."""
    cur.execute(read("client/report_model.sql"), {"name": name})
    for version, active, aliases, manifest, *rest in cur.fetchall():
        # a role that may not use the model sees neither aliases nor anything of the manifest
        if version == number if number is not None else alias in (aliases or ()) if alias else active:
            # an older version has stored what it was given
            found = manifest if isinstance(manifest, dict) else {}
            labels = found.get("labels")
            facts = tuple(_facts(found, active, aliases, rest))
            return ModelFacts(
                f"{name}@{version}", tuple(map(str, labels)) if isinstance(labels, list) else (), facts
            )
    return None


def named_facts(cur: Cursor, reference: str) -> ModelFacts:
    """Return the facts of `name`, `name@3` or `name@alias`.

    Raises:
        DataError: there is no such model.
    """
    name, _, rest = reference.partition("@")
    facts = model_facts(cur, name, int(rest) if rest.isdecimal() else None, rest)
    if facts is None:
        raise DataError(f"model {reference!r} does not exist", "'dbinfer models' lists all models.")
    return facts


def _facts(
    manifest: dict[str, Any], active: bool, aliases: list[str] | None, rest: list[Any]
) -> Iterator[tuple[str, str]]:
    created_at, created_by, length, digest = rest
    if manifest:
        yield "task", str(manifest.get("task"))
        sides = f"{manifest.get('height')} x {manifest.get('width')} (height x width)"
        yield "input", f"{sides}, {manifest.get('color')}"
        yield "precision", str(manifest.get("precision"))
    yield "state", "active" if active else "not active"
    if aliases:
        yield "aliases", ", ".join(aliases)
    if created_at:
        yield "deployed", f"{moment(created_at)} by {created_by}"
        yield "size", size(length)
    if digest:
        yield "sha256", digest
    for part in ("metrics", "provenance"):
        told = manifest.get(part)
        for term, value in told.items() if isinstance(told, dict) else ():
            yield str(term).replace("_", " "), _said(value)


def _said(value: Any, inner: bool = False) -> str:
    """Return a JSON value as people write it: names and values with commas between them."""
    if isinstance(value, dict):
        text = ", ".join(f"{term} {_said(part, True)}" for term, part in value.items())
        return f"({text})" if inner else text
    if isinstance(value, list):
        return ", ".join(_said(part, True) for part in value)
    if isinstance(value, float):
        return f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value)


def jobs(cur: Cursor, source: Source, version: Version) -> list[Job]:
    """Return the last jobs that wrote these results; where none is known, what the times of the rows say."""
    found = []
    if columns(cur, TableName("dbinfer", "jobs"), missing=True):
        cur.execute(
            sql.SQL(read("client/report_jobs.sql")).format(
                target=sql.Literal(str(source.predictions)),
                model=sql.Literal(version.model),
                number=sql.Literal(version.number),
                limit=sql.Literal(JOBS),
            )
        )
        found = [_job(row) for row in cur.fetchall()]
    return found or _by_times(version)


def _job(row: tuple[Any, ...]) -> Job:
    number, role, state, done, errors, rate, seconds, started = row
    detail = f"{state}, {errors:,} bad rows, started {moment(started)} by {role}"
    return Job(f"job {number}", detail, done, f"{rate or 0:,.0f}", f"{seconds or 0:,.1f}")


def _by_times(version: Version) -> list[Job]:
    if version.first is None or version.last is None or version.last == version.first:
        return []
    seconds = (version.last - version.first).total_seconds()
    rate = f"{version.rows / seconds:,.0f}"
    return [
        Job(
            "by the times of the rows", f"from {moment(version.first)}", version.rows, rate, f"{seconds:,.1f}"
        )
    ]
