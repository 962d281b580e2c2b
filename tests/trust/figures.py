"""Collects what the trust tests did, as JSON lines in one file, for the table at the end of the run."""

from __future__ import annotations

import atexit
import json
import os
import re
import tempfile
from pathlib import Path

VARIABLE = "DBINFER_TRUST_FIGURES"  # a file to add to, so that several runs make one table
SUMS = {
    "inputs": "inputs tried",
    "faults": "faults injected",
    "calls": "calls of private functions",
    "boundaries": "boundaries attacked",
    "rows": "rows scored",
    "wrong": "wrong answers",
    "crashes": "crashes",
    "hangs": "hangs",
}
LARGEST = {
    "memory_mb": "largest memory, MB",
    "slowest_s": "longest time of one image, s",
    "cancel_s": "longest time that a cancel took, s",
}
LEAST = {"coverage": "least of a fuzzed module's lines reached, %"}


def long() -> bool:
    """Return whether all of the tests are wanted: LONG=1."""
    return os.environ.get("LONG", "") not in ("", "0")


def file() -> Path:
    """Return the file of this run's figures, the same one in each of its processes."""
    if VARIABLE not in os.environ:
        handle, name = tempfile.mkstemp(prefix="dbinfer-trust-", suffix=".jsonl")
        os.close(handle)
        atexit.register(_remove, name, os.getpid())
        os.environ[VARIABLE] = name
    return Path(os.environ[VARIABLE])


def _remove(name: str, maker: int) -> None:
    """Remove this run's file at its end; a forked process only has a copy of the plan to do so."""
    if os.getpid() == maker:
        Path(name).unlink(missing_ok=True)


def record(test: str, **values: float) -> None:
    """Add a test's figures; their names are those of SUMS, LARGEST and LEAST."""
    unknown = set(values) - set(SUMS) - set(LARGEST) - set(LEAST)
    assert not unknown, f"no such figures: {sorted(unknown)}"
    with file().open("a", encoding="utf-8") as lines:
        lines.write(json.dumps({"test": test, **values}) + "\n")


def boundaries(ran: set[str]) -> list[str]:
    """Return the boundaries of docs/explanation/security.md that the test files which ran attack."""
    text = (Path(__file__).parents[2] / "docs" / "explanation" / "security.md").read_text(encoding="utf-8")
    section = text.partition("## Boundaries")[2].partition("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if "`tests/" in line]
    return [cells[0] for cells in lines if ran & set(re.findall(r"`(tests/[^`]+)`", cells[-1]))]


def table() -> list[str]:
    """Return the lines of the table: each test's figures, and their sums, the largest or the least."""
    tests = [json.loads(line) for line in file().read_text(encoding="utf-8").splitlines()]
    if not tests:
        return []
    lines = [
        f"{one.pop('test')}: " + ", ".join(f"{k} {v:g}" for k, v in one.items()) for one in map(dict, tests)
    ]
    for names, join in ((SUMS, sum), (LARGEST, max), (LEAST, min)):
        for name, words in names.items():
            found = [one[name] for one in tests if name in one]
            lines.append(f"{words:40} {f'{join(found):>12,.7g}' if found else '   not tried'}")  # type: ignore[operator]
    return lines
