"""`make verify`: all that this project claims, at one commit, part by part, and the page that says what came out.

Usage: python tests/verify.py [PART ...] [--list] [--page] [--again]

Each part runs in one clean clone of the last commit that changes more than the page. What came out is added to
docs/verification.json, of which docs/verification.md is made. Commit both, and another machine goes on with what is
left: a part that has passed at this commit is not run again, one for which something is missing here says what.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone
from pathlib import Path

import container_engine

from dbinfer.bench.environment import machine
from dbinfer.bench.report import machine_line

ROOT = Path(__file__).parents[1]
KEPT, PAGE = ROOT / "docs" / "verification.json", ROOT / "docs" / "verification.md"
BUILD = ROOT / "build" / "verify"
COUNTS = r"^=+ (\d+ .* in .*?) =+$"  # pytest's last line
FIGURES = 40  # lines of a part on the page, the last ones
SKIPPED = r"^SKIPPED \[(\d+)\] [^ ]+ (.*)$"  # of pytest's summary: how many, and why


@dataclass(frozen=True)
class Part:
    """Something to verify.

    Attributes:
        claim: what holds if it passes.
        command: for bash, in the clone.
        lacks: returns why it cannot run here; empty where it can.
        figures: a pattern with one group, whose matches in the output go to the page.
    """

    claim: str
    command: str
    lacks: Callable[[], str] = lambda: ""
    figures: str = COUNTS


@dataclass(frozen=True)
class Result:
    """What a part gave; `left_out` has the reason of each skipped test, with their number."""

    commit: str
    date: str
    machine: str
    seconds: int
    passed: bool
    figures: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


def unset(*names: str) -> Callable[[], str]:
    """Return what says which of these variables are not set."""
    return lambda: ", ".join(f"{name} is not set" for name in names if not os.environ.get(name))


def greenplum(planner: str, isolation: str) -> Part:
    """Return the part that tests a cluster with one of its planners, in backends or in the engine."""
    return Part(
        f"All tests that can run on a cluster pass on Greenplum 7 with "
        f"{'ORCA' if planner == 'on' else 'the planner of PostgreSQL'}, "
        f"{'each model in the engine' if isolation == 'always' else 'scoring in the segments'}",
        f"DBINFER_TEST_GREENPLUM_DSN=\"$DBINFER_TEST_GREENPLUM_DSN options='-c optimizer={planner}'\" "
        f"DBINFER_TEST_ISOLATION={isolation} make test-greenplum",
        unset("DBINFER_TEST_GREENPLUM_DSN", "DBINFER_TEST_GREENPLUM_VENV"),
    )


PARTS = {
    "ci": Part(
        "On a machine with nothing installed, formatting, types and layers are right, and all tests of one machine "
        "pass, with every example of README and docs",
        ".ci/run",
    ),
    "long": Part(
        "The long forms of those tests pass: whole trainings, 20,000 rows with workers killed",
        "LONG=1 .venv/bin/pytest -m '' "
        "$(grep -rlwE 'LONG|killing|at_length|further' tests/unit tests/db --include='test_*.py')",
    ),
    "trust": Part(
        "What the page on security promises holds against hostile files, users and faults, in the long form",
        "LONG=1 make test-trust",
    ),
    "soak": Part(
        "Two hours of everything at once, in which each part is ended now and then, give no wrong answer, leave "
        "nothing behind, and no memory grows",
        "make soak HOURS=2",
        figures=r'^ *("statements": \d+|"job": \d+|"\w+_mb": \[|.* passed in .*)',
    ),
    **{
        f"postgresql-{major}": Part(
            f"The database tests pass on PostgreSQL {major}, with its distribution's Python",
            f"make test-matrix ENGINES={major}",
            container_engine.lacks,
            r"^(\d\d\.\d+ .*|left out everywhere: .*|skipped: .*)$",
        )
        for major in (14, 15, 16, 17, 18)
    },
    **{
        f"greenplum-7-{name}-{place}": greenplum(planner, isolation)
        for planner, name in (("on", "orca"), ("off", "postgres"))
        for isolation, place in (("never", "segments"), ("always", "engine"))
    },
    "greenplum-6": Part(
        "What can run on Greenplum 6 passes there",
        'DBINFER_TEST_GREENPLUM_DSN="$DBINFER_TEST_GREENPLUM6_DSN" '
        'DBINFER_TEST_GREENPLUM_VENV="$DBINFER_TEST_GREENPLUM6_VENV" '
        ".venv/bin/pytest tests/db/test_result_values.py tests/db/test_images_tables.py tests/db/test_jobs_batches.py "
        "tests/db/test_score_tables.py tests/greenplum/test_plans_shapes.py tests/greenplum/test_session_reader.py",
        unset("DBINFER_TEST_GREENPLUM6_DSN", "DBINFER_TEST_GREENPLUM6_VENV"),
    ),
    "containers": Part(
        "Images, compose files, wheel and Debian package work on Debian 12 and 13 and Ubuntu 22.04 and 24.04, and a "
        "database moves between versions of PostgreSQL",
        "make test-docker",
        container_engine.lacks,
    ),
    "bench": Part(
        "The rates of the page on performance, each beside what it should be",
        "make bench && sed -n '/^| must hold/,/^$/p' docs/explanation/performance.md",
        figures=r"^\| (.* \| (?:ok|below)) \|$",
    ),
    **{
        f"bench-{name}": Part(
            claim,
            f".venv/bin/dbinfer up && .venv/bin/python tests/bench/{script}",
            figures=r"^(?=.*\d)(.*)$",
        )
        for name, script, claim in (
            ("answering", "answering.py", "How long one row waits for a worker"),
            ("cascade", "cascade.py", "What a small network before a large one saves"),
            ("choosing", "choosing.py", "How many labels choosing them saves"),
            ("finetuning", "finetuning.py", "What fine-tuning brings on few images"),
            ("forecasts", "forecasts.py", "How far a plan is off"),
            ("queueing", "queueing.py", "What an insert pays for `dbinfer follow`"),
            ("reuse", "reuse.py", "What `dbinfer score --reuse` costs and saves"),
            ("stores", "stores.py", "The rates of images that lie elsewhere"),
            ("training", "training.py compare", "What several ranks bring to a training"),
            ("bf16", "training.py precision", "What bf16 brings to a training"),
            ("words", "words.py", "How often words find an image"),
        )
    },
    "papers": Part(
        "The experiments of the papers run to their end; their figures are on their page",
        "rm -rf build/papers* && make papers",
        figures=r"^(\w+: .*)$",
    ),
}


def said(*words: str) -> str:
    """Return what git says."""
    return subprocess.run(
        ["git", *words], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.strip()


def commit_of_the_source() -> str:
    """Return the last commit that changes more than the page."""
    return said("log", "-1", "--format=%H", "--", ".", ":!docs/verification.*")


def clone_of(commit: str) -> Path:
    """Return the clean clone of a commit, made and set up at the first call."""
    folder = BUILD / commit[:12]
    if not (folder / ".venv" / "train-env.stamp").exists():
        shutil.rmtree(folder, ignore_errors=True)
        said("clone", "--quiet", "--no-checkout", str(ROOT), str(folder))
        subprocess.run(["git", "checkout", "--quiet", commit], cwd=folder, check=True)
        subprocess.run(["make", "--no-print-directory", "train-env"], cwd=folder, check=True)
    return folder


def run(name: str, commit: str) -> Result:
    """Run a part; its output goes to build/verify/NAME.log."""
    part, folder, log = PARTS[name], clone_of(commit), BUILD / f"{name}.log"
    # a bench before may have written its pages
    subprocess.run(["git", "reset", "--quiet", "--hard"], cwd=folder, check=True)
    date, begin = datetime.now(timezone.utc).strftime("%Y-%m-%d"), time.monotonic()
    command = ["bash", "-o", "pipefail", "-c", part.command]
    with log.open("w", encoding="utf-8") as file:
        done = subprocess.run(command, cwd=folder, stdout=file, stderr=subprocess.STDOUT, check=False)
    text = log.read_text(encoding="utf-8", errors="replace")
    skipped: Counter[str] = Counter()
    for count, reason in re.findall(SKIPPED, text, re.MULTILINE):
        skipped[reason] += int(count)
    return Result(
        commit,
        date,
        machine_line(machine()),
        round(time.monotonic() - begin),
        done.returncode == 0,
        re.findall(part.figures, text, re.MULTILINE)[-FIGURES:],
        [f"{count}: {reason}" for reason, count in skipped.most_common()],
    )


def kept() -> dict[str, Result]:
    """Return what came out before, by part."""
    if not KEPT.exists():
        return {}
    return {name: Result(**one) for name, one in json.loads(KEPT.read_text(encoding="utf-8")).items()}


def write(results: dict[str, Result]) -> None:
    """Keep the results, and write the page."""
    known = {name: asdict(results[name]) for name in PARTS if name in results}
    KEPT.write_text(json.dumps(known, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    PAGE.write_text(page(results), encoding="utf-8")


def page(results: dict[str, Result]) -> str:
    """Return the page: a table of all parts, and a section for each."""
    passed = Counter(one.commit for one in results.values() if one.passed)
    lines = [
        "# Verification",
        "",
        "All that these pages claim, run at one commit: `make verify` runs each part in a clean clone, goes on where",
        "it was stopped, also on another machine, and writes this page. A figure holds for the machine that it names.",
        "",
        *(f"Commit {commit[:12]}: {count} of {len(PARTS)} parts passed." for commit, count in passed.items()),
        *([] if results else ["No part has been run at one commit with the others yet."]),
        "",
        "| part | came out | when | minutes | tests left out |",
        "|---|---|---|---|---|",
    ]
    for name in PARTS:
        cells = ["not run"] + [""] * 3
        if one := results.get(name):
            left = sum(int(reason.partition(":")[0]) for reason in one.left_out)
            cells = ["passed" if one.passed else "**failed**", one.date, f"{one.seconds / 60:.0f}", str(left)]
        lines.append(f"| [{name}](#{name}) | {' | '.join(cells)} |")
    for name, part in PARTS.items():
        lines += ["", f"## {name}", "", f"{part.claim}.", "", "```console", f"$ {part.command}", "```"]
        if one := results.get(name):
            lines += ["", f"{'Passed' if one.passed else 'Failed'} on {one.date}: {one.machine}."]
            lines += ["", "```text", *one.figures, "```"] if one.figures else []
            lines += (
                ["", "Left out:", "", *(f"- {reason}" for reason in one.left_out)] if one.left_out else []
            )
    return "\n".join(lines) + "\n"


def main() -> int:
    """Run what is left; 0 where all parts that were asked for have passed."""
    parser = argparse.ArgumentParser(
        prog="make verify", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)}; all by default")
    parser.add_argument("--list", action="store_true", help="say what is left, and run nothing")
    parser.add_argument("--page", action="store_true", help="write the page of what is kept, and run nothing")
    parser.add_argument("--again", action="store_true", help="also what has passed already")
    options = parser.parse_args()
    if strange := sorted(set(options.parts) - set(PARTS)):
        parser.error(f"there is no part {', '.join(strange)}; there are {', '.join(PARTS)}")
    if options.page:
        PAGE.write_text(page(kept()), encoding="utf-8")
        return 0
    commit = commit_of_the_source()
    # one page tells of one commit
    results = {name: one for name, one in kept().items() if one.commit == commit}
    left = []
    for name in options.parts or PARTS:
        if name in results and results[name].passed and not options.again:
            print(f"{name}: passed on {results[name].date}")
            continue
        left.append(name)
        if lacks := PARTS[name].lacks():
            print(f"{name}: cannot run here: {lacks}")
        elif options.list:
            print(f"{name}: left")
        else:
            print(f"{name}: running, its output is in {BUILD}/{name}.log", flush=True)
            results[name] = run(name, commit)
            write(results)
            print(f"{name}: {'passed' if results[name].passed else 'FAILED'}", flush=True)
            if results[name].passed:
                left.remove(name)
    return int(bool(left))


if __name__ == "__main__":
    sys.exit(main())
