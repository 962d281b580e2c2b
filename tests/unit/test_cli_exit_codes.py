"""Exit codes and errors of the command line: 0 done, 1 failed, 2 wrong usage; one sentence, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from dbinfer.base.version import __version__

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sys.executable).with_name("dbinfer")


def dbinfer(*args: str, home: Path) -> subprocess.CompletedProcess[str]:
    clean = {key: value for key, value in os.environ.items() if not key.startswith(("PG", "DBINFER"))}
    env = {**clean, "DBINFER_HOME": str(home), "COLUMNS": "200"}
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, check=False, env=env)


def test_version_and_help(tmp_path: Path) -> None:
    assert dbinfer("--version", home=tmp_path).stdout == f"dbinfer {__version__}\n"
    shown = dbinfer("--help", home=tmp_path)
    assert (shown.returncode, "deploy" in shown.stdout) == (0, True)


def test_the_changelog_begins_with_this_version() -> None:
    heading = next(
        line for line in (ROOT / "CHANGELOG.md").read_text().splitlines() if line.startswith("## ")
    )
    assert heading in (f"## {__version__}", f"## {__version__} (unreleased)")


@pytest.mark.parametrize(
    ("args", "code", "word"),
    [
        (["models"], 1, "dbinfer up"),
        (["deploy", "/nowhere/model.xml"], 1, "no file /nowhere/model.xml"),
        (["deploy", "model.onnx"], 1, "dbinfer convert"),
        (["models", "--dsn", "host=127.0.0.1 port=1 connect_timeout=2"], 1, "cannot connect"),
        (["models", "--dsn", "nonsense"], 1, "cannot parse the connection string"),
        (["activate", "digits", "--dsn", "host=127.0.0.1 port=1"], 1, "does not name a version"),
        (["install", "--threads", "many", "--dsn", "host=127.0.0.1 port=1"], 2, "--threads is 'many'"),
        (["install", "--cache-dir", "fast", "--dsn", "host=127.0.0.1 port=1"], 2, "--cache-dir is 'fast'"),
        (["install", "--venv", "venv", "--dsn", "host=127.0.0.1 port=1"], 2, "--venv is 'venv'"),
        (["install", "--max-models", "0"], 2, "--max-models"),
        (["deploy", "x.xml", "--mean", "a,b"], 2, "--mean is 'a,b'"),
        (["deploy", "x.xml", "--input-size", "small"], 2, "height x width"),
        (["deploy", "x.xml", "--layout", "CHWN"], 2, "NHWC or NCHW"),
        (["deploy", "x.xml", "--labels", "@/nowhere"], 2, "/nowhere"),
        (["deploy"], 2, "Missing argument"),
        (["nonsense"], 2, "No such command"),
        (["models", "--nonsense"], 2, "No such option"),
    ],
)
def test_errors(tmp_path: Path, args: list[str], code: int, word: str) -> None:
    done = dbinfer(*args, home=tmp_path)
    assert done.returncode == code, done.stderr
    assert word in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
