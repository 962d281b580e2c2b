"""Many sessions score while another deploys, activates and drops: each answer is of the right model and one version."""

from __future__ import annotations

import multiprocessing
import os
import random
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import figures
import psycopg2
import pytest
import tiny_models
from asking import ask, force_parallel, make_images, rows
from breakable import IMAGE, Breakable

from dbinfer.registry import deploy

pytestmark = [
    pytest.mark.postgres_only("watches the backends of a server on this machine"),
    pytest.mark.timeout(900),
]
SESSIONS = 32
SECONDS = 300 if figures.long() else 20
FLAT_ROWS = 200_000 if figures.long() else 20_000
MODELS = ("alpha", "beta", "gamma")
ROWS = 40
BOUND = "SELECT coalesce(max(value), '4') FROM dbinfer_private.setting WHERE name = 'max_models'"
SHAPES = {
    "plain": "SELECT (dbinfer.predict(img, '{a}'))[1] FROM many",
    "parallel": "SELECT min((dbinfer.predict(img, '{a}'))[1]), max((dbinfer.predict(img, '{a}'))[1]) FROM many",
    "limit": "SELECT (dbinfer.predict(img, '{a}'))[1] FROM many LIMIT 3",
    "lateral": "SELECT p[1] FROM many, LATERAL dbinfer.predict(img, '{a}') p WHERE id < 20",
    "cte": "WITH s AS MATERIALIZED (SELECT dbinfer.predict(img, '{a}') p FROM many) SELECT p[1] FROM s",
    "union": "SELECT (dbinfer.predict(img, '{a}'))[1] FROM many WHERE id < 5 "
    "UNION ALL SELECT (dbinfer.predict(img, '{a}'))[1] FROM many WHERE id > 30",
    "subquery": "SELECT (SELECT (dbinfer.predict(img, '{a}'))[1] FROM many ORDER BY id LIMIT 1), "
    "(dbinfer.predict(img, '{a}'))[1] FROM many WHERE id < 9",
    "plpgsql": "SELECT scored(img, '{a}') FROM many WHERE id < 9",
    "two models": "SELECT (dbinfer.predict(img, '{a}'))[1], -(dbinfer.predict(img, '{b}'))[1] FROM many WHERE id < 9",
}
WRAPPER = """
CREATE OR REPLACE FUNCTION scored(img bytea, model text) RETURNS real LANGUAGE plpgsql STABLE AS $$
BEGIN RETURN (dbinfer.predict(img, model))[1]; END $$"""


@dataclass
class Tally:
    """What one session saw."""

    statements: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)


def model_of(number: float) -> str:
    """Return the model whose versions answer so: alpha 1000 + version, beta 2000 + version, ..."""
    place = int(number) // 1000 - 1
    return MODELS[place] if 0 <= place < len(MODELS) else f"nobody ({number})"


def wrong_in(found: list[tuple[Any, ...]], first: str, second: str) -> str:
    """Return what is wrong with a statement's rows: an answer of another model, or of two versions of one."""
    numbers = [float(value) for row in found for value in row]
    own, other = {n for n in numbers if n > 0}, {-n for n in numbers if n < 0}
    for seen, name in ((own, first), (other, second)):
        if {model_of(n) for n in seen} - {name}:
            return f"{name} answered {sorted(seen)}"
        if len(seen) > 1:
            return f"one statement mixed versions of {name}: {sorted(seen)}"
    return ""


def session(dsn: str, number: int, start: Any, results: Any) -> None:
    """Score in one shape after the other, in a process of its own, for SECONDS from when all are ready."""
    tally, draw = Tally(), random.Random(number)
    connection = psycopg2.connect(dsn)
    connection.autocommit = number % 4 != 0
    if number % 2:
        force_parallel(connection)
    start.wait()
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        first, second = draw.sample(MODELS, 2)
        shape = draw.choice(sorted(SHAPES))
        try:
            found = rows(connection, SHAPES[shape].format(a=first, b=second))
            wrong = wrong_in(found, first, second)
            tally.rows += len(found)
            if wrong:
                tally.problems.append(f"{shape}: {wrong}")
        except psycopg2.Error as err:
            tally.problems.append(f"{shape}: {err.pgcode} {err}")
        if not connection.autocommit:
            connection.rollback() if draw.random() < 0.5 else connection.commit()
        tally.statements += 1
    connection.close()
    results.put(tally)


@pytest.fixture
def crowded(broken: Breakable, tmp_path: Path) -> Breakable:
    """The database with many images and the first versions of three models."""
    with broken.session() as db:
        make_images(db, "many", [IMAGE], ROWS)
        rows(db, WRAPPER)
    for place, name in enumerate(MODELS, 1):
        deploy(tiny_models.constant(tmp_path, place * 1000 + 1, name), dsn=broken.dsn)
    return broken


def churn(broken: Breakable, folder: Path) -> int:
    """Deploy, activate and drop versions for SECONDS; return how many changes that were."""
    draw, changes, until = random.Random(0), 0, time.monotonic() + SECONDS
    with broken.session() as db:
        while time.monotonic() < until:
            place = draw.randrange(len(MODELS))
            name = MODELS[place]
            version = ask(db, "SELECT max(version) FROM dbinfer.model_versions WHERE name = %s", name) + 1
            answer = (place + 1) * 1000 + version
            done = deploy(tiny_models.constant(folder, answer, name), dsn=broken.dsn)
            assert done.version == version
            older = ask(db, "SELECT min(version) FROM dbinfer.model_versions WHERE name = %s", name)
            rows(db, "SELECT dbinfer.activate(%s, %s)", name, draw.choice([older, version]))
            rows(db, "SELECT dbinfer.activate(%s, %s)", name, version)
            if older < version - 2:
                rows(db, "SELECT dbinfer.drop_model(%s, %s)", name, older)
            changes += 4
    return changes


def test_no_answer_is_wrong_and_no_statement_mixes_versions(crowded: Breakable, tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    results, start = context.Queue(), context.Barrier(SESSIONS + 1)
    crowd = [context.Process(target=session, args=(crowded.dsn, n, start, results)) for n in range(SESSIONS)]
    for process in crowd:
        process.start()
    start.wait()
    changes = churn(crowded, tmp_path)
    tallies = [results.get(timeout=300) for _ in crowd]
    for process in crowd:
        process.join(60)
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
        deploy(tiny_models.constant(tmp_path, number, name), dsn=broken.dsn)
    with broken.session() as db:
        pid, sizes = ask(db, "SELECT pg_backend_pid()"), []
        bound = int(ask(db, BOUND))
        for _ in range(30):
            for number, name in enumerate(names):
                assert ask(db, "SELECT dbinfer.predict(%s, %s)", IMAGE, name) == [number] * 3
            assert ask(db, "SELECT json_array_length(models) FROM dbinfer.segments") <= bound
            sizes.append(resident_mb(pid))
    assert sizes[-1] < sizes[5] + 5, sizes


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process, in MB."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6
