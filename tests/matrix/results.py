"""What a run of one engine has found: read from its files, and shown as a table, as Markdown and as JSON."""

from __future__ import annotations

import ast
import json
import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HEAD = ("engine", "base", "Python", "numpy", "OpenVINO", "part", "passed", "failed", "skipped", "ratio")
RATIO = "ratio: images per second of SQL to those of a bare OpenVINO loop, for the digits, in the same run"


@dataclass
class Row:
    """One engine.

    Attributes:
        engine: PostgreSQL's full version, or its major one where it could not be had.
        part: which tests ran: all, core, or other words for pytest.
        failed: names of tests; skipped: reason -> number of tests.
        ratio: of SQL to a bare loop on the digits; None where it was not measured.
        problem: why this row is not whole, or empty.
    """

    engine: str
    base: str
    date: str = ""
    python: str = ""
    numpy: str = ""
    openvino: str = ""
    part: str = "all"
    passed: int = 0
    failed: list[str] = field(default_factory=list)
    skipped: dict[str, int] = field(default_factory=dict)
    ratio: float | None = None
    problem: str = ""

    def cells(self) -> tuple[str, ...]:
        """Return this row of the table."""
        ratio = "" if self.ratio is None else f"{self.ratio:.2f}"
        counts = (str(self.passed), str(len(self.failed)), str(sum(self.skipped.values())))
        return (self.engine, self.base, self.python, self.numpy, self.openvino, self.part, *counts, ratio)


def read(major: int, base: str, folder: Path, date: str) -> Row:
    """Return what the files of a run say; what is missing is the row's problem."""
    row = Row(f"PostgreSQL {major}", base, date)
    facts = _json(folder / "facts.json")
    if not facts:
        row.problem = f"no server: {_last(folder / 'log.txt')}"
        return row
    row.engine = f"PostgreSQL {facts['postgresql'].split()[0]}"
    row.python, row.numpy, row.openvino = facts["python"], facts["numpy"] or "", facts["openvino"] or ""
    row.problem = facts["problem"] or ""
    files: set[str] = set()
    for name in ("together.xml", "alone.xml"):
        if (folder / name).exists():
            _count(row, _once(ET.parse(folder / name).iter("testcase"), files))
        else:
            row.problem = row.problem or f"the tests did not end ({folder / 'log.txt'})"
    row.ratio = next((r.get("ratio_bare") for r in _measured(folder) if r["method"] == "sql"), None)
    return row


def _count(row: Row, cases: Iterable[ET.Element]) -> None:
    for case in cases:
        skipped = case.find("skipped")
        if case.find("failure") is not None or case.find("error") is not None:
            # a file that cannot be imported is a case without a class
            folder, name = case.get("classname", ""), case.get("name", "")
            row.failed.append(
                f"{folder.replace('.', '/')}.py::{name}" if folder else f"{name.replace('.', '/')}.py"
            )
        elif skipped is not None:
            reason = _reason(skipped)
            row.skipped[reason] = row.skipped.get(reason, 0) + 1
        else:
            row.passed += 1


def _once(cases: Iterable[ET.Element], files: set[str]) -> Iterator[ET.Element]:
    """Yield cases; a file that is skipped or failed as a whole once, although both runs have it."""
    for case in cases:
        if case.get("classname"):
            yield case
        elif case.get("name", "") not in files:
            files.add(case.get("name", ""))
            yield case


def _reason(skipped: ET.Element) -> str:
    # of a file as a whole: (path, line, 'Skipped: reason')
    text = skipped.get("message", "")
    if text == "collection skipped":
        text = str(ast.literal_eval(skipped.text or "")[2])
    return re.sub(r"^Skipped: ", "", text.strip()) or "no reason given"


def _measured(folder: Path) -> list[dict[str, Any]]:
    found = _json(folder / "bench.json")
    return list(found.get("results", [])) if found else []


def _json(file: Path) -> Any:
    return json.loads(file.read_text()) if file.exists() else None


def _last(file: Path) -> str:
    lines = [line.strip() for line in file.read_text().splitlines() if line.strip()] if file.exists() else []
    return lines[-1] if lines else "no output"


def notes(rows: Sequence[Row], left_out: dict[str, str]) -> list[str]:
    """Return the sentences below the table: what was skipped or failed, and why; what is left out everywhere."""
    lines = [RATIO]
    lines += [f"left out everywhere: {pattern} ({reason})" for pattern, reason in left_out.items()]
    reasons: Counter[str] = Counter()
    for row in rows:
        reasons.update(row.skipped)
    for reason in reasons:
        where = ", ".join(f"{row.engine} {row.skipped[reason]}" for row in rows if reason in row.skipped)
        lines.append(f"skipped: {reason} ({where})")
    lines += [f"failed on {row.engine}: {name}" for row in rows for name in row.failed]
    return lines + [f"{row.engine} ({row.base}): {row.problem}" for row in rows if row.problem]


def as_text(rows: Sequence[Row], left_out: dict[str, str]) -> str:
    """Return the table for a terminal."""
    table = [HEAD, *(row.cells() for row in rows)]
    widths = [max(len(line[i]) for line in table) for i in range(len(HEAD))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)) for line in table]
    return "\n".join([*(line.rstrip() for line in lines), "", *notes(rows, left_out)])


def as_markdown(rows: Sequence[Row], left_out: dict[str, str]) -> str:
    """Return the table for a page."""
    head = (*HEAD, "run on")
    lines = [head, tuple("---" for _ in head), *((*row.cells(), row.date) for row in rows)]
    table = ["| " + " | ".join(cells) + " |" for cells in lines]
    return "\n".join([*table, "", *(f"- {note}" for note in notes(rows, left_out)), ""])


def as_json(rows: Sequence[Row]) -> str:
    """Return all rows with all that is known of them."""
    return json.dumps([asdict(row) for row in rows], indent=1) + "\n"


def load(text: str) -> list[Row]:
    """Return the rows of `as_json`."""
    return [Row(**fields) for fields in json.loads(text)]
