"""Bytes of strangers, guided by the lines that they reach: a minute, or DBINFER_FUZZ_SECONDS with LONG=1."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path

import figures
import pytest

HERE = Path(__file__).parent
FUZZ, CORPUS = HERE / "fuzz", HERE / "corpus"
KEPT = HERE.parents[1] / "build" / "fuzz"  # inputs that reached something new, and those that failed
TARGETS = ("header", "decode", "manifest", "ir", "messages", "slots", "archives")
FAILED = ("crash-", "timeout-", "oom-")

pytestmark = pytest.mark.wide


def python(*arguments: object, limit: float) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(str(HERE.parents[1] / part) for part in ("", "udf", "tests/trust", "tests/db"))
    quiet = {"PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OPENCV_LOG_LEVEL": "SILENT"}
    command = [sys.executable, *map(str, arguments)]
    pipe = subprocess.PIPE  # what libraries print may be no text
    return subprocess.run(
        command,
        stdout=pipe,
        stderr=pipe,
        errors="replace",
        timeout=limit,
        check=False,
        env=os.environ | quiet,
    )


def seconds() -> int:
    return int(os.environ.get("DBINFER_FUZZ_SECONDS", "600")) if figures.long() else 60 // len(TARGETS)


def replayed(target: str, *folders: Path) -> dict[str, float]:
    """Let sound inputs and those of the folders be read once more; return how many, and what they reached."""
    done = python(FUZZ / "targets.py", target, *folders, limit=600)
    assert done.returncode == 0, done.stderr[-2000:]
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("target", TARGETS)
def test_sound_inputs_and_earlier_finds(target: str) -> None:
    found = replayed(target, CORPUS / target)
    figures.record(f"earlier finds, {target}", inputs=found["inputs"], coverage=found["coverage"])


@pytest.mark.timeout(0)
@pytest.mark.skipif(not importlib.util.find_spec("atheris"), reason="no atheris: pip install -e '.[fuzz]'")
@pytest.mark.parametrize("target", TARGETS)
def test_new_inputs(target: str) -> None:
    """What fails stays in build/fuzz; put it into tests/trust/corpus, from where it is tried ever after."""
    kept, failed = KEPT / target, KEPT / f"{target}-failed"
    failed.mkdir(parents=True, exist_ok=True)
    before, began = set(failed.iterdir()), time.monotonic()
    done = python(
        FUZZ / "fuzz_runtime.py", target, kept, f"-artifact_prefix={failed}/", f"-max_total_time={seconds()}",
        "-timeout=60", "-rss_limit_mb=4000", "-max_len=20000", "-print_final_stats=1",
        # the minute of everybody's tests looks at the same inputs each time; the hours of LONG=1 find new ones
        f"-seed={0 if figures.long() else 1}", limit=seconds() + 600,
    )  # fmt: skip
    new = [str(file) for file in sorted(set(failed.iterdir()) - before) if file.name.startswith(FAILED)]
    tried = [int(number) for number in re.findall(r"number_of_executed_units: (\d+)", done.stderr)]
    figures.record(
        f"fuzzed {target}, {time.monotonic() - began:.0f} s", inputs=sum(tried),
        crashes=sum("crash-" in file for file in new), hangs=sum("timeout-" in file for file in new),
    )  # fmt: skip
    assert new == [], done.stderr[-3000:]
    assert done.returncode == 0, done.stderr[-3000:]
    figures.record(f"reached by {target}", coverage=replayed(target, kept)["coverage"])
