"""Reads a page as a tour: its shell, SQL and Python blocks in order, each with the output that the page shows."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path

BLOCK = re.compile(r"(?:^<!-- tour: (\w+) -->\n)?^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
NUMBER = re.compile(r"\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?: [kMG]?B\b)?")
DECIMAL = re.compile(r"\d+\.\d+(?:e[-+]?\d+)?")
RULE = re.compile(r"[-+─━═]{2,}")  # the lines of a table are as long as its widest cell
CLOSE = 0.05  # another processor rounds differently


@dataclass
class Step:
    """One command, script or set of statements; `shown` is the output on the page, if any.

    Attributes:
        measured: every number of the output depends on the machine.
        fails: the page shows an error.
        stays: the command does not end; what it does is seen in what follows.
        answered: the command asks a person, whose part a test takes.
    """

    kind: str
    source: str
    shown: str = ""
    measured: bool = False
    fails: bool = False
    stays: bool = False
    answered: bool = False

    def __str__(self) -> str:
        return self.source.strip().splitlines()[0][:60]


@dataclass
class Page:
    """The steps found so far."""

    steps: list[Step] = field(default_factory=list)

    def console(self, text: str, mark: str) -> None:
        """Add the commands after each `$ `; the other lines are their output."""
        for part in re.split(r"^\$ ", text, flags=re.MULTILINE)[1:]:
            command, _, shown = part.replace("\\\n", "").partition("\n")
            step = Step("console", re.sub(r"\s+# .*", "", command), shown)
            step.measured, step.stays = mark in ("measured", "answered"), mark == "stays"
            step.answered = mark == "answered"
            self.steps.append(step)

    def show(self, text: str, mark: str) -> None:
        """Take a `text` block as the output of the block before it."""
        last = self.steps[-1]
        last.shown, last.measured, last.fails = text, mark == "measured", mark == "fails"


def steps(page: Path) -> list[Step]:
    """Return what a reader does who follows the page; blocks marked `<!-- tour: skip -->` are left out."""
    found = Page()
    for mark, kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if mark == "skip":
            continue
        if kind == "console":
            found.console(text, mark)
        elif kind == "text":
            found.show(text, mark)
        elif kind in ("sql", "python"):
            found.steps.append(Step(kind, text))
    return found.steps


def alike(step: Step, printed: str) -> bool:
    """Say whether the output is what the page shows; a line `...` stands for any lines."""
    if not step.shown:
        return True
    mask = NUMBER if step.measured else DECIMAL
    # a figure of other length breaks a sentence elsewhere
    space, end = (r"\s+", r"\s+") if step.measured else (" ", r"\n")
    pattern = "".join(
        r"(?:.*\n)*?" if line == "..." else space.join(map(re.escape, mask.sub("#", line).split())) + end
        for line in _plain(step.shown).splitlines()
    )
    same = re.fullmatch(pattern, mask.sub("#", _plain(printed))) is not None
    return same and (step.measured or _close(step.shown, printed))


def _close(shown: str, printed: str) -> bool:
    pairs = zip(DECIMAL.findall(shown), DECIMAL.findall(printed), strict=False)
    return "...\n" in shown or all(abs(float(a) - float(b)) <= CLOSE for a, b in pairs)


def _plain(text: str) -> str:
    """Return the lines that are not empty, without what only the widths of columns change."""
    lines = (re.sub(r"\s+", " ", RULE.sub("-", line)).strip() for line in text.splitlines())
    return "".join(f"{line}\n" for line in lines if line)
