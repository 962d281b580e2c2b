"""The matrix of engines: what can be chosen, and the table that a run's files give."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).parents[1] / "matrix"))

import container
import engines
import results

JUNIT = """<testsuites><testsuite>
<testcase classname="tests.db.test_a" name="test_one"/>
<testcase classname="tests.db.test_a" name="test_two"><failure message="no"/></testcase>
<testcase classname="tests.db.test_b" name="test_three"><error message="no server"/></testcase>
<testcase classname="tests.db.test_b" name="test_four"><skipped message="needs pgvector"/></testcase>
<testcase classname="" name="tests.db.test_d"><error message="collection failure"/></testcase>
<testcase classname="" name="tests.db.test_c"><skipped message="collection skipped"
>('/work/tests/db/test_c.py', 20, "Skipped: could not import 'nncf': No module named 'nncf'")</skipped></testcase>
<testcase classname="tests.db.test_e" name="test_five"><skipped message="Skipped: needs TensorFlow"/></testcase>
</testsuite></testsuites>"""
# a run that takes no test of these files finds again what is wrong with them
AGAIN = "".join(line + "\n" for line in JUNIT.splitlines() if 'classname="tests' not in line)
FACTS = {"postgresql": "17.11 (Debian 17.11-1)", "python": "3.13.5", "numpy": "2.4.6", "openvino": "2026.4.1"}
BENCH = {"results": [{"method": "bare"}, {"method": "sql", "ratio_bare": 0.957}]}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """The files of a run that ended."""
    (tmp_path / "facts.json").write_text(json.dumps({**FACTS, "problem": None}))
    (tmp_path / "together.xml").write_text(JUNIT)
    (tmp_path / "alone.xml").write_text(AGAIN)
    (tmp_path / "bench.json").write_text(json.dumps(BENCH))
    return tmp_path


def row(folder: Path) -> results.Row:
    return results.read(17, "debian:trixie-slim", folder, "2026-11-22 09:00 UTC")


def test_a_row_counts_and_names(run: Path) -> None:
    found = row(run)
    assert found.cells()[0] == "PostgreSQL 17.11"
    assert found.cells()[2:] == ("3.13.5", "2.4.6", "2026.4.1", "all", "1", "3", "3", "0.96")
    assert found.failed == [
        "tests/db/test_a.py::test_two",
        "tests/db/test_b.py::test_three",
        "tests/db/test_d.py",
    ]
    missing = "could not import 'nncf': No module named 'nncf'"
    assert found.skipped == {"needs pgvector": 1, missing: 1, "needs TensorFlow": 1}
    assert found.problem == ""


def test_a_run_that_ended_early_is_no_whole_row(run: Path) -> None:
    (run / "alone.xml").unlink()
    assert "did not end" in row(run).problem


def test_without_a_server_the_log_says_why(tmp_path: Path) -> None:
    (tmp_path / "log.txt").write_text("matrix: starting\ndbinfer: pip could not install\n\n")
    assert row(tmp_path).problem == "no server: dbinfer: pip could not install"


def test_the_tables_say_everything_that_was_skipped_or_failed(run: Path) -> None:
    rows = [row(run), results.Row("PostgreSQL 18", "debian:sid-slim", problem="cannot be had: no network")]
    for text in (results.as_text(rows, engines.LEFT_OUT), results.as_markdown(rows, engines.LEFT_OUT)):
        assert "skipped: needs pgvector (PostgreSQL 17.11 1)" in text
        assert "failed on PostgreSQL 17.11: tests/db/test_a.py::test_two" in text
        assert "cannot be had: no network" in text
        assert all(pattern in text for pattern in engines.LEFT_OUT)
    assert results.load(results.as_json(rows)) == rows


def test_engines_are_chosen_by_their_major_version() -> None:
    assert [engine.major for engine in engines.select([])] == [13, 14, 15, 16, 17, 18]
    assert [engine.base for engine in engines.select(["17", "15"])] == [
        "debian:trixie-slim",
        "debian:bookworm-slim",
    ]
    for word in ("12", "17.1", "all"):
        with pytest.raises(ValueError, match=f"no engine '{word}' in the matrix; there are 13 14"):
            engines.select([word])


def test_progress_is_what_the_log_says_last() -> None:
    lines = [
        "matrix: installing\n",
        "x\n",
        "matrix: testing\n",
        "tests/db/test_a.py .. [ 40%]\n",
        "matrix: done\n",
    ]
    assert list(container.phases(lines)) == ["installing", "testing", "testing 40 %", "done"]


def test_what_is_left_out_is_there() -> None:
    for pattern in engines.LEFT_OUT:
        assert list((container.ROOT / "tests" / "db").glob(pattern)), pattern
    parts = (*container.TREE_FILES, *engines.PARTS["core"])
    assert all((container.ROOT / part).exists() for part in parts)
