"""Sessions score on all segments, with both planners, while versions come and go: no answer is wrong, none mixed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import crowd
import figures
import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from plans import PLANNERS
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

pytestmark = pytest.mark.timeout(900)
IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
SESSIONS, SECONDS = (16, 300) if figures.long() else (8, 20)
FLAT = 40 if figures.long() else 10  # statements of 6,000 rows
RSS = "SELECT content, rss FROM dbinfer.segments"


@pytest.fixture
def crowded(dsn: str, tmp_path: Path) -> str:
    """A database with images on all segments and the first versions of three models."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        make_images(db, "many", [IMAGE], crowd.ROWS)
        rows(db, crowd.WRAPPER)
    crowd.deploy_first(dsn, tmp_path)
    return dsn


def plan(session: Connection, number: int) -> None:
    """Give the sessions the planners in turn."""
    rows(session, f"SET optimizer = {list(PLANNERS.values())[number % len(PLANNERS)]}")


def test_no_answer_is_wrong_and_no_statement_mixes_versions(crowded: str, tmp_path: Path) -> None:
    tallies, changes = crowd.run(crowded, tmp_path, crowd.Crowd(SESSIONS, SECONDS, plan))
    problems = [problem for tally in tallies for problem in tally.problems]
    figures.record("load on a cluster", rows=sum(tally.rows for tally in tallies), wrong=len(problems))
    print(f"{sum(tally.statements for tally in tallies)} statements, {changes} changes")
    assert problems == []
    assert changes > 0
    assert all(tally.statements > 0 for tally in tallies)


def test_the_memory_of_the_segments_is_flat_over_many_rows(db: Connection, dsn: str, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 7, "seven"), dsn=dsn)
    make_images(db, "flat", [IMAGE], 6000)
    sizes: dict[int, list[float]] = {}
    for _ in range(FLAT):
        assert ask(db, "SELECT count(dbinfer.predict(img, 'seven')) FROM flat") == 6000
        for content, rss in rows(db, RSS):
            sizes.setdefault(content, []).append(rss / 1e6)
    figures.record("memory of segments", rows=FLAT * 6000, memory_mb=max(map(max, sizes.values())))
    assert all(max(found[FLAT // 4 :]) < found[FLAT // 4] + 5 for found in sizes.values()), sizes
