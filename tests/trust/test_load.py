"""Many sessions score while another deploys, activates and drops: each answer is of the right model and one version."""

from __future__ import annotations

import os
from pathlib import Path

import crowd
import figures
import pytest
import tiny_models
from asking import ask, force_parallel, make_images, rows
from breakable import IMAGE, Breakable
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

pytestmark = [
    pytest.mark.wide,
    pytest.mark.postgres_only("watches the backends of a server on this machine"),
    pytest.mark.timeout(900),
    pytest.mark.alone("32 sessions at once"),
]
SESSIONS = 32
SECONDS = 300 if figures.long() else 12
FLAT_ROWS = 200_000 if figures.long() else 20_000
BOUND = "SELECT coalesce(max(value), '4') FROM dbinfer_private.setting WHERE name = 'max_models'"


@pytest.fixture
def crowded(broken: Breakable, tmp_path: Path) -> Breakable:
    """The database with many images and the first versions of three models."""
    with broken.session() as db:
        make_images(db, "many", [IMAGE], crowd.ROWS)
        rows(db, crowd.WRAPPER)
    crowd.deploy_first(broken.dsn, tmp_path)
    return broken


def parallel(session: Connection, number: int) -> None:
    """Let every second session's plans be parallel."""
    if number % 2:
        force_parallel(session)


def test_no_answer_is_wrong_and_no_statement_mixes_versions(crowded: Breakable, tmp_path: Path) -> None:
    tallies, changes = crowd.run(crowded.dsn, tmp_path, crowd.Crowd(SESSIONS, SECONDS, parallel))
    problems = [problem for tally in tallies for problem in tally.problems]
    scored = sum(tally.rows for tally in tallies)
    figures.record("load", rows=scored, wrong=len(problems))
    assert problems == []
    assert changes > 0
    assert all(tally.statements > 0 for tally in tallies)
    with crowded.session() as db:
        assert ask(db, "SELECT deadlocks FROM pg_stat_database WHERE datname = current_database()") == 0


def test_the_memory_of_a_session_is_flat_over_many_rows(broken: Breakable) -> None:
    with broken.session() as db:
        make_images(db, "few", [IMAGE], 1000)
        pid = ask(db, "SELECT pg_backend_pid()")
        rows(db, "SET max_parallel_workers_per_gather = 0")
        sizes = []
        for _ in range(max(10, FLAT_ROWS // 1000)):
            assert ask(db, "SELECT count(dbinfer.predict(img, 'seven')) FROM few") == 1000
            sizes.append(resident_mb(pid))
    figures.record("memory", rows=len(sizes) * 1000, memory_mb=max(sizes))
    settled = sizes[len(sizes) // 4]
    assert max(sizes[len(sizes) // 4 :]) < settled + 2, sizes


def test_a_backend_never_keeps_more_models_than_it_may(broken: Breakable, tmp_path: Path) -> None:
    names = [f"bound{number}" for number in range(12)]
    for number, name in enumerate(names):
        # in the backend, whose bound is tried; an engine would serve the first rows of all of them
        options = DeployOptions(isolation="never")
        deploy(tiny_models.constant(tmp_path, number, name), options, dsn=broken.dsn)
    with broken.session() as db:
        pid, sizes = ask(db, "SELECT pg_backend_pid()"), []
        bound = int(ask(db, BOUND))
        for _ in range(30 if figures.long() else 10):
            for number, name in enumerate(names):
                assert ask(db, "SELECT dbinfer.predict(%s, %s)", IMAGE, name) == [number] * 3
            assert ask(db, "SELECT json_array_length(models) FROM dbinfer.segments") <= bound
            sizes.append(resident_mb(pid))
    assert sizes[-1] < sizes[5] + 5, sizes


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
