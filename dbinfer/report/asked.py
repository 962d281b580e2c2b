"""The page of a query of dbinfer.estimate or dbinfer.find: intervals and how they shrank, or what was found."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database.connection import execute_patiently
from dbinfer.report.sections import SHOWN, Fact, Tile, number, percent, short
from dbinfer.report.tables import Key

ESTIMATE = ("part", "estimate", "low", "high", "unknown", "scored", "rows")
FOUND = ("key", "checked")
# sql/functions/estimate.sql says after each round what is known of each group. Words before a colon are the server's,
# in its language
ROUND = re.compile(r"^[^:]*:\s+(\[\{.*\}\])$", re.MULTILINE)
SAID = re.compile(r"\A[^:]*:\s+dbinfer: (.*)$", re.MULTILINE)


class Interval(NamedTuple):
    """An estimate and its bounds (None where nothing is known), by the name of its group or the number of its round."""

    name: str
    estimate: float | None
    low: float | None
    high: float | None
    scored: int
    rows: int


@dataclass
class Chart:
    """Intervals one below the other, on one scale from `low` to `high`."""

    intervals: Sequence[Interval]
    low: float
    high: float

    def place(self, value: float) -> float:
        """Return where a value is on the scale, in per cent."""
        return 100 * (value - self.low) / (self.high - self.low)


@dataclass
class Asked:
    """What the query has said.

    Attributes:
        groups: the intervals; rounds: how the only one shrank.
        found: pictures of rows that were found, the first of them; more: how many others there are.
    """

    query: str
    title: str = ""
    summary: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    groups: Chart | None = None
    rounds: Chart | None = None
    found: list[Tile] = field(default_factory=list)
    more: int = 0
    figures: dict[str, Any] = field(default_factory=dict)


class Notices:
    """What psycopg2 puts the server's notices into: keeps what dbinfer tells, of thousands of a cluster's.

    Attributes:
        rounds: what was known after each, of each group; said: the sentences.
    """

    def __init__(self) -> None:
        self.rounds: list[list[dict[str, Any]]] = []
        self.said: list[str] = []

    def append(self, notice: str) -> None:
        """Take one notice."""
        if found := ROUND.search(notice):
            self.rounds.append(json.loads(found[1]))
        elif found := SAID.match(notice):
            self.said.append(found[1])


def ask(conn: Connection, query: str, progress: OnProgress) -> tuple[Asked, list[Key]]:
    """Run the query, and return what it says and the keys of what it found.

    Raises:
        DataError: its columns are neither those of dbinfer.estimate nor those of dbinfer.find.
    """
    progress(Progress("asking"))
    notices = Notices()
    conn.notices = notices  # type: ignore[assignment]
    with conn.cursor() as cur:
        # an estimate tells its rounds at this level
        cur.execute("SET LOCAL client_min_messages = debug1")
        execute_patiently(cur, query)
        names = [one.name for one in cur.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in cur.fetchall()] if names else []
    asked = Asked(query.strip(), notes=notices.said)
    if set(ESTIMATE) <= set(names):
        _estimate(asked, rows, notices.rounds)
        return asked, []
    if set(FOUND) <= set(names):
        return asked, _found(asked, rows)
    raise DataError(
        f"the query gives {f'the columns {shown}' if (shown := ', '.join(names)) else 'no columns'}, "
        "so it is neither an estimate nor a search",
        "Write, for example: --query \"SELECT * FROM dbinfer.estimate('images', 'dbinfer.classify(img) IS NULL')\"",
    )


def _estimate(
    asked: Asked, rows: Sequence[dict[str, Any]], rounds: Sequence[Sequence[dict[str, Any]]]
) -> None:
    asked.title = "An estimate"
    groups = [_interval("all rows" if row["part"] is None else row["part"], row) for row in rows]
    asked.groups = _chart(groups)
    scored, everything = (sum(getattr(one, name) for one in groups) for name in ("scored", "rows"))
    asked.figures = {"rows": everything, "sampled": scored}
    if len(groups) == 1:
        path = [_interval(str(turn), one) for turn, (one,) in enumerate(rounds) if one["scored"]]
        # the last round is the answer
        asked.rounds = _chart(path)
        asked.figures |= {name: rows[0][name] for name in ("estimate", "low", "high")}
        if groups[0].estimate is not None:
            bounds = f"{short(groups[0].low or 0.0)} to {short(groups[0].high or 0.0)}"
            asked.summary += [Fact(short(groups[0].estimate), "estimate"), Fact(bounds, "interval")]
    else:
        asked.summary.append(Fact(number(len(groups)), "groups"))
    asked.summary += [Fact(number(scored), "rows scored"), Fact(number(everything), "rows of the table")]
    if unknown := sum((row["unknown"] or 0.0) * row["rows"] for row in rows):
        asked.summary.append(Fact(percent(unknown / everything), "of the rows without an answer"))


def _interval(name: str, row: dict[str, Any]) -> Interval:
    known = {key: row.get(key) for key in ("estimate", "low", "high")}
    return Interval(name, **known, scored=int(row["scored"]), rows=round(row["rows"]))


def _chart(intervals: Sequence[Interval]) -> Chart | None:
    """Return the intervals on one scale; None where none is known."""
    known = [one for one in intervals if one.low is not None and one.high is not None]
    if not known:
        return None
    low, high = min(one.low or 0.0 for one in known), max(one.high or 0.0 for one in known)
    # one interval of no width has a scale, too
    return Chart(known, low, high if high > low else low + (abs(low) or 1.0))


def _found(asked: Asked, rows: Sequence[dict[str, Any]]) -> list[Key]:
    asked.title = "A search"
    unseen = sum(not row["checked"] for row in rows)
    asked.figures = {"rows": len(rows), "sampled": min(SHOWN, len(rows))}
    asked.summary = [Fact(number(len(rows)), "rows found"), Fact(number(unseen), "of them taken unseen")]
    shown = [((str(row["key"]),), row["checked"]) for row in rows[:SHOWN]]
    asked.found = [Tile(key, "checked" if checked else "unseen") for key, checked in shown]
    asked.more = len(rows) - len(asked.found)
    return [key for key, _ in shown]
