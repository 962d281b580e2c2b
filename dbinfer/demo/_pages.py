"""The demo's last act: results as tables, and one page on each that a browser opens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from dbinfer.connection import session
from dbinfer.demo._story import Story
from dbinfer.page import ReportOptions, report
from dbinfer.score import ScoreOptions, score
from dbinfer.sqlfiles import read

DIGITS, STROKES = "digit_results", "stroke_results"


def write_pages(story: Story, out: Path, dsn: str | None, truths: Mapping[str, bytes]) -> tuple[Path, Path]:
    """Score both tables and write a page on each; return the pages.

    Args:
        truths: the true mask of each photograph, by the name of its file.
    """
    _store_truths(dsn, truths)
    digits = _page(story, "digits", "images", DIGITS, out / "digits.html", dsn)
    strokes = _page(story, "strokes", "strokes", STROKES, out / "strokes.html", dsn)
    return digits, strokes


def _page(story: Story, model: str, table: str, into: str, out: Path, dsn: str | None) -> Path:
    command = f"dbinfer report --table {table} --predictions {into} --out {out}"
    with story.step(f"A page on the {model}: what came out, how good it is, what to look at", command):
        scored = score(table, into, ScoreOptions(model=model), dsn, story.within)
        done = report(table, into, ReportOptions(out=out), dsn, story.within)
        story.say(f"{scored.rows} rows scored, {out}: {done.bytes / 1000:.0f} kB")
    return out


def _store_truths(dsn: str | None, truths: Mapping[str, bytes]) -> None:
    with session(dsn) as conn, conn.cursor() as cur:
        cur.execute(read("demo/truth_column.sql"))
        for name, mask in truths.items():
            cur.execute(
                "UPDATE strokes SET truth = %s WHERE path = %s AND truth IS NULL", (mask, f"img/{name}")
            )
