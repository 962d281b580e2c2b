"""dbinfer load on the command line: exit status, JSON, sentences without traceback."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import role, rows
from psycopg2.extensions import make_dsn


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "red.png").write_bytes(tiny_models.file(tiny_models.picture(255, 0, 0)))
    (tmp_path / "notes.txt").write_text("no image")
    return tmp_path


@pytest.fixture
def db_role(empty_dsn: str) -> Iterator[str]:
    """A dsn whose sessions are a role without any right on a table of the superuser."""
    with closing(psycopg2.connect(empty_dsn)) as admin:
        admin.autocommit = True
        rows(admin, "CREATE TABLE public.theirs (path text, img bytea)")
        with role(admin) as name:
            yield make_dsn(empty_dsn, options=f"-c role={name}")


def dbinfer(*words: str) -> subprocess.CompletedProcess[str]:
    program = "from dbinfer.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words], capture_output=True, text=True, check=False
    )
    assert "Traceback" not in done.stderr
    return done


def test_json_counts(empty_dsn: str, folder: Path) -> None:
    done = dbinfer(
        "load", str(folder), "--table", "counted", "--label-from", "folder", "--dsn", empty_dsn, "--json"
    )
    facts = json.loads(done.stdout)
    assert done.returncode == 0
    assert (facts["loaded"], facts["created"], facts["table"]) == (1, True, "public.counted")
    assert facts["refused"] == [
        {
            "file": str(folder / "notes.txt"),
            "reason": "is not an image (JPEG, PNG, BMP, TIFF, WebP, GIF, AVIF or HEIC)",
        }
    ]


def test_nothing_loaded_is_exit_1(empty_dsn: str, folder: Path) -> None:
    done = dbinfer("load", str(folder / "notes.txt"), "--table", "nothing", "--dsn", empty_dsn)
    assert done.returncode == 1
    assert "not an image" in done.stdout.replace("\n", " ")


def test_wrong_usage_is_exit_2(empty_dsn: str, folder: Path) -> None:
    for words in (["--label-from", "file"], ["--table", "a.b.c"], ["--base", str(folder / "elsewhere")]):
        done = dbinfer("load", str(folder), *words, "--dsn", empty_dsn)
        assert done.returncode == 2, words
        assert done.stderr.startswith("dbinfer: ")


@pytest.mark.parametrize("dsn", ["host=127.0.0.1 port=1", "nonsense", "postgresql://127.0.0.1:1/x"])
def test_no_server(folder: Path, dsn: str) -> None:
    done = dbinfer("load", str(folder), "--dsn", dsn)
    assert done.returncode == 1
    assert done.stderr.startswith("dbinfer: ")


def test_a_role_without_rights(db_role: str, folder: Path) -> None:
    done = dbinfer("load", str(folder), "--table", "public.theirs", "--dsn", db_role)
    assert done.returncode == 1
    assert "permission denied" in done.stderr
