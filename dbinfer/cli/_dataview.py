"""How load and predict show their progress and results."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from dbinfer.cli._options import bytes_text, print_table
from dbinfer.errors import UsageError

if TYPE_CHECKING:
    from dbinfer.load import LoadReport
    from dbinfer.score import Answer

SHOWN = 20


def on_stderr() -> dict[str, Any]:
    """Return the options of a bar that only a terminal shows."""
    stderr = Console(stderr=True, highlight=False)
    return {"console": stderr, "disable": not stderr.is_terminal, "transient": True}


class LoadBar:
    """Images done, images/s and MB/s."""

    def __init__(self) -> None:
        columns = (
            TextColumn("loading"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[speed]}"),
        )
        self.bar = Progress(*columns, **on_stderr())
        self.task = self.bar.add_task("", total=None, speed="")

    def __enter__(self) -> LoadBar:
        self.bar.start()
        return self

    def update(self, done: int, size: int, total: int) -> None:
        seconds = self.bar.tasks[0].elapsed or 0
        speed = f"{done / seconds:.0f} images/s {size / seconds / 1e6:.1f} MB/s" if seconds else ""
        self.bar.update(self.task, completed=done, total=total, speed=speed)

    def __exit__(self, *exc: object) -> None:
        self.bar.stop()


def show_load(report: LoadReport) -> None:
    """Print what was refused, then the counts."""
    rows = [[item.file, item.reason] for item in report.refused]
    if rows:
        more = f", the first {SHOWN}; all with --json" if len(rows) > SHOWN else ""
        print_table(f"{len(rows)} refused{more}", ["file", "reason"], rows[:SHOWN])
    changed = report.loaded + report.skipped
    state = "made" if report.created else "was there" if changed else "nothing was changed"
    counts = [
        [
            report.loaded,
            report.skipped,
            len(report.refused),
            bytes_text(report.bytes),
            f"{report.seconds:.1f}",
        ]
    ]
    print_table(f"{report.table} ({state})", ["loaded", "skipped", "refused", "size", "seconds"], counts)


def check_names(files: Sequence[Path], out: Path | None) -> None:
    """Refuse two files of one name: their results would lie in one file."""
    name, count = Counter(file.name for file in files).most_common(1)[0]
    if out is not None and count > 1:
        raise UsageError(
            f"{count} of the files are named {name!r}; their results would overwrite each other in {out}.",
            "Ask folder by folder, each with its own --out.",
        )


def kept_value(answer: Answer, out: Path | None) -> Any:
    """Return what is printed: bytes go into a file, whose path it is."""
    if not isinstance(answer.value, bytes) or out is None:
        return answer.value
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{answer.file.name}.{'png' if answer.function == 'segment' else 'f32'}"
    file.write_bytes(answer.value)
    return str(file)


def facts(answer: Answer, value: Any) -> dict[str, Any]:
    """Return an answer for --json."""
    return {**vars(answer), "file": str(answer.file), "value": value}


def show_answers(answers: list[tuple[Answer, Any]]) -> None:
    """Print one row a file."""
    rows = [
        [answer.file, answer.error or _short(value), f"{answer.milliseconds:.1f}"]
        for answer, value in answers
    ]
    function = answers[0][0].function if answers else ""
    print_table(f"dbinfer.{function}", ["file", "result", "ms"], rows)


def _short(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_short(part)}" for key, part in value.items() if part is not None)
    if isinstance(value, list):
        tail = f", ... ({len(value)} values)" if len(value) > 8 else ""
        return ", ".join(_short(part) for part in value[:8]) + tail
    return f"{value:.4g}" if isinstance(value, float) else str(value)
