"""How the demo reports: a title for each step, the command that does the same, and what was measured."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.base.report import Report


@documented
@dataclass(frozen=True)
class DemoOptions:
    """Where the demo keeps its things."""

    out: Path = option(Path("out/demo"), "Folder for models, images and pictures.")
    picture: Path | None = option(
        None, "Also draw the statements and their results (.png, 1280 pixels wide)."
    )


@dataclass(frozen=True)
class DemoReport(Report):
    """What the demo measured in SQL.

    Attributes:
        accuracy: of the digits, on images that training never saw.
        images_per_second: of the digits.
        dice: of the masks of strokes, likewise.
        masks: picture of photographs, true masks and the masks that SQL returned.
        pages: what dbinfer report wrote on the digits and on the strokes.
    """

    accuracy: float
    images_per_second: float
    dice: float
    masks: Path
    pages: tuple[Path, Path]


EVERY = 5.0  # seconds between the notes of a verb that has many


class Story:
    """Steps and their results, as notes."""

    def __init__(self, progress: OnProgress) -> None:
        self.progress = progress
        self.title = ""
        self._told = 0.0  # when the last line was shown

    @contextmanager
    def step(self, title: str, command: str = "") -> Iterator[None]:
        """Show what is about to happen and the command for it, and afterwards how long it took."""
        self.title = title
        self.note(f"\n==> {title}")
        if command:
            self.say(f"$ {command}")
        begin = time.monotonic()
        yield
        self.say(f"{time.monotonic() - begin:.1f} s")

    def say(self, text: str) -> None:
        """Show one line of a step."""
        self._told = time.monotonic()
        self.note(f"    {text}")

    def note(self, text: str) -> None:
        """Show a line that belongs to no step."""
        self.progress(Progress(self.title, note=text))

    def rows(self, columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
        """Show rows as psql does."""
        table = [list(columns), *([str(value) for value in row] for row in rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(columns))]
        lines = [
            " | ".join(value.ljust(width) for value, width in zip(line, widths, strict=True))
            for line in table
        ]
        for line in (lines[0], "-+-".join("-" * width for width in widths), *lines[1:]):
            self.say(line.rstrip())

    def retell(self, progress: Progress) -> None:
        """Show a verb's notes as lines of the step."""
        if progress.note:
            self.say(progress.note)

    def within(self, progress: Progress) -> None:
        """Pass on a verb's progress; show its notes if none was shown for a while, as those of long epochs."""
        if progress.note and time.monotonic() - self._told > EVERY:
            self.say(progress.note)
        self.progress(replace(progress, note=""))
