"""`make papers`: an experiment is measured, kept, and written into the page; what is kept is not measured again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from train_runs import needs_horovod
from variants import at_length

BENCH = Path(__file__).parents[1] / "bench"
# The script itself, with its page and what it keeps elsewhere, and with very few images
SMALL = """
import sys
from pathlib import Path
import papers

class Small(papers.Size):
    def of(self, full, cut):
        return min(cut, 40 if cut > 10 else 1)

papers.BUILD, papers.PAGE = Path(sys.argv[1]), Path(sys.argv[1]) / "papers.md"
papers.KEPT = papers.BUILD / "papers.json"
papers.EXPERIMENTS = [one for one in papers.EXPERIMENTS if one.name == "mnist"]
options = {"ranks": 2, "device": "cpu", "hosts": "", "bind": "", "launcher": "mpi"}
papers.main([], Small(False, options, Path(sys.argv[1])))
"""


def ran(folder: Path) -> str:
    done = subprocess.run(
        [sys.executable, "-c", SMALL, str(folder)],
        cwd=BENCH, capture_output=True, text=True, check=False, env={**os.environ, "MPLBACKEND": "Agg"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@needs_horovod
@at_length
def test_measured_once_and_written(tmp_path: Path) -> None:
    assert "mnist" in ran(tmp_path)
    page = (tmp_path / "papers.md").read_text()
    (found,) = json.loads((tmp_path / "papers.json").read_text()).values()
    assert [line[0] for line in found["lines"][:3]] == ["devices", "1 x cpu", "2 x cpu"]
    assert all(" | ".join(line) in page for line in found["lines"])
    assert "248.3 s on one device and 154.2 s on two" in page
    assert ran(tmp_path) == ""


def test_an_unknown_experiment_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "papers.py", "moon"], cwd=BENCH, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no experiment is called moon" in done.stderr
