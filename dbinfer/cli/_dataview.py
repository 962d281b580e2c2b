"""How load and predict show their results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dbinfer.cli._options import bytes_text, print_table, say

if TYPE_CHECKING:
    from dbinfer.load import LoadReport
    from dbinfer.score import PredictReport

SHOWN = 20


def show_load(report: LoadReport) -> None:
    """Print what was refused, then the counts."""
    rows = [[item.file, item.reason] for item in report.refused]
    if rows:
        more = f", the first {SHOWN}; all with --json" if len(rows) > SHOWN else ""
        print_table(f"{len(rows)} refused{more}", ["file", "reason"], rows[:SHOWN])
    state = (
        "made" if report.created else "was there" if report.loaded + report.known else "nothing was changed"
    )
    counts = {"loaded": report.loaded, "skipped": report.skipped, "changed": report.changed}
    counts.update(updated=report.updated, refused=len(report.refused))
    # what there is none of in most loads is not shown
    shown = {key: n for key, n in counts.items() if n or key not in ("changed", "updated")}
    facts = {**shown, "size": bytes_text(report.bytes), "seconds": f"{report.seconds:.1f}"}
    print_table(f"{report.table} ({state})", list(facts), [list(facts.values())])
    if report.changed:
        say(f"{report.changed} files have changed since they were loaded; --update replaces their images.")


def show_answers(report: PredictReport) -> None:
    """Print one row a file."""
    rows = [
        [answer.file, answer.error or _short(answer.value), f"{answer.milliseconds:.1f}"]
        for answer in report.answers
    ]
    print_table(f"dbinfer.{report.function}", ["file", "result", "ms"], rows)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        # Classes and objects have fields of their own: a line each
        between = "\n" if value and isinstance(value[0], dict) else ", "
        more = [f"... ({len(value)} values)"] if len(value) > 8 else []
        return between.join([_short(part) for part in value[:8]] + more)
    return f"{value:.4g}" if isinstance(value, float) else str(value)
