"""`make test` runs two parts, the second one also after a failure; on a cluster it runs all in one process."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "test"
FAKE = """#!/bin/sh
echo "$*" >> calls
case "$*" in *"not alone"*) exit $FIRST;; *) exit $SECOND;; esac
"""


def run(folder: Path, **env: str) -> tuple[int, list[str]]:
    """Run the script with a pytest that notes how it was called; return its status and the calls."""
    (folder / "scripts").mkdir()
    (folder / ".venv" / "bin").mkdir(parents=True)
    shutil.copy(SCRIPT, folder / "scripts" / "test")
    program = folder / ".venv" / "bin" / "pytest"
    program.write_text(FAKE)
    program.chmod(0o755)
    environment = {**os.environ, "TMPDIR": str(folder), "FIRST": "0", "SECOND": "0", **env}
    done = subprocess.run(["bash", folder / "scripts" / "test"], env=environment, check=False)
    return done.returncode, (folder / "calls").read_text().splitlines()


@pytest.mark.parametrize(("first", "second"), [(0, 0), (0, 1), (1, 0)])
def test_both_parts_run_and_either_may_fail(tmp_path: Path, first: int, second: int) -> None:
    found, calls = run(tmp_path, FIRST=str(first), SECOND=str(second), DBINFER_TEST_GREENPLUM_DSN="")
    assert found == max(first, second)
    assert [call.rpartition("-m ")[2] for call in calls] == ["not alone", "alone"]
    assert all(call.startswith(f"--basetemp {tmp_path}/dt.") for call in calls)
    assert "-n 2" in calls[0]
    # the file of figures has gone
    assert {path.name for path in tmp_path.iterdir()} == {"scripts", ".venv", "calls"}


def test_one_process_for_a_cluster(tmp_path: Path) -> None:
    assert run(tmp_path, DBINFER_TEST_GREENPLUM_DSN="host=cluster", SECOND="3") == (3, [""])
