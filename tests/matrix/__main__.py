"""`make test-matrix`: the database tests and the bench ratio of digits on every PostgreSQL that distributions have.

Usage: python tests/matrix [--resume] [--part core] [--only "PYTEST WORDS"] [MAJOR...]
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timezone

import container

sys.path.append(str(container.ROOT / "tests"))

import container_engine
import results
from engines import ENGINES, LEFT_OUT, PARTS, Engine, select

BUILD = container.ROOT / "build" / "matrix"


def main(words: list[str]) -> int:
    """Run the engines one after the other; 0 where all tests of all engines passed."""
    parser = argparse.ArgumentParser(prog="make test-matrix", description=__doc__)
    parser.add_argument("engines", nargs="*", help=f"of {' '.join(map(str, ENGINES))}; all by default")
    parser.add_argument("--resume", action="store_true", help="leave out engines that have a whole row")
    parser.add_argument("--part", choices=PARTS, default="all", help="core takes a quarter of the time")
    parser.add_argument("--only", default="", help="what pytest gets instead of the part's files")
    options = parser.parse_args(words)
    try:
        chosen = select(options.engines)
    except ValueError as err:
        parser.error(str(err))
    if reason := container_engine.lacks():
        parser.error(reason)
    digits()
    for engine in chosen:
        known = row_of(engine)
        if options.resume and known and not known.problem:
            print(f"{engine.major}: has a row of {known.date}")
            continue
        row = run(engine, options.only or options.part)
        (BUILD / str(engine.major) / "row.json").write_text(results.as_json([row]))
        write([row for row in map(row_of, ENGINES.values()) if row])
    shown = [row for row in map(row_of, chosen) if row]
    print(f"\n{results.as_text(shown, LEFT_OUT)}\n\n{BUILD}/matrix.md, matrix.json")
    return int(any(row.failed or row.problem for row in shown))


def row_of(engine: Engine) -> results.Row | None:
    """Return what the last whole run of an engine found; each has a file, because several may run at once."""
    file = BUILD / str(engine.major) / "row.json"
    return results.load(file.read_text())[0] if file.exists() else None


def digits() -> None:
    """Make the network of the digits, for which the containers have no TensorFlow."""
    folder = BUILD / "digits"
    if (folder / "digits.xml").exists():
        return
    print("making the network of the digits")
    folder.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, "-m", "dbinfer.bench.networks", "digits", str(folder)], check=True)


def run(engine: Engine, part: str) -> results.Row:
    """Return the row of one engine, with a part's tests or those that these words name, and print a line on it."""
    begin, date = time.monotonic(), datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC")
    folder = container.fresh(BUILD / str(engine.major))
    say = _progress(engine, begin)
    try:
        say("building")
        container.build(engine, folder / "build.txt")
        container.run(engine, folder, PARTS.get(part) or part.split(), say)
        row = results.read(engine.major, engine.base, folder, date)
    except container.CannotBeHad as err:
        row = results.Row(f"PostgreSQL {engine.major}", engine.base, date, problem=f"cannot be had: {err}")
    row.part = part
    counts = f"{row.passed} passed, {len(row.failed)} failed, {sum(row.skipped.values())} skipped"
    say(f"{row.engine}: {row.problem or counts}", end=True)
    return row


def _progress(engine: Engine, begin: float) -> Callable[..., None]:
    """Return what shows the phase: one line that is written over on a terminal, one at the end elsewhere."""

    def say(phase: str, end: bool = False) -> None:
        line = f"{engine.major} ({engine.base}) {(time.monotonic() - begin) / 60:.1f} min: {phase}"
        if sys.stdout.isatty():
            print(f"\r\033[K{line}", end="\n" if end else "", flush=True)
        elif end or "%" not in phase:
            print(line, flush=True)

    return say


def write(rows: list[results.Row]) -> None:
    """Write the table's files; after each engine, so that what is done stays."""
    (BUILD / "matrix.json").write_text(results.as_json(rows))
    (BUILD / "matrix.md").write_text(results.as_markdown(rows, LEFT_OUT))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
