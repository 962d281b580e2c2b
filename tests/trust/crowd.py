"""A crowd of sessions that score in mixed plan shapes while another one deploys, activates and drops versions."""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg2
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

MODELS = ("alpha", "beta", "gamma")
STEP = 1_000_000  # more versions than a run of days makes; a float32 still tells each from the next
ROWS = 40
SHAPES = {
    "plain": "SELECT (dbinfer.predict(img, '{a}'))[1] FROM many",
    "aggregate": "SELECT min((dbinfer.predict(img, '{a}'))[1]), max((dbinfer.predict(img, '{a}'))[1]) FROM many",
    "limit": "SELECT (dbinfer.predict(img, '{a}'))[1] FROM many LIMIT 3",
    "above limit": "SELECT (dbinfer.predict(img, '{a}'))[1] FROM (SELECT * FROM many ORDER BY id LIMIT 5) s",
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


@dataclass(frozen=True)
class Crowd:
    """How many sessions score how long, and what each session does first."""

    sessions: int
    seconds: float
    prepare: Callable[[Connection, int], None]


@dataclass
class Tally:
    """What one session saw."""

    statements: int = 0
    rows: int = 0
    problems: list[str] = field(default_factory=list)


def model_of(number: float) -> str:
    """Return the model whose versions answer so: alpha STEP + version, beta 2 * STEP + version, ..."""
    place = int(number) // STEP - 1
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


def session(dsn: str, crowd: Crowd, number: int, start: Any, results: Any) -> None:
    """Score in one shape after the other, in a process of its own, from when all are ready."""
    tally, draw = Tally(), random.Random(number)
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    crowd.prepare(connection, number)
    connection.autocommit = number % 4 != 0
    start.wait()
    until = time.monotonic() + crowd.seconds
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


def deploy_first(dsn: str, folder: Path) -> None:
    """Deploy the first version of each model."""
    for place, name in enumerate(MODELS, 1):
        deploy(tiny_models.constant(folder, place * STEP + 1, name), dsn=dsn)


def change(db: Connection, dsn: str, folder: Path, draw: random.Random) -> None:
    """Deploy a version of one of the models, activate an older one and this one, and drop the oldest: four changes."""
    place = draw.randrange(len(MODELS))
    name = MODELS[place]
    version = ask(db, "SELECT max(version) FROM dbinfer.model_versions WHERE name = %s", name) + 1
    answer = (place + 1) * STEP + version
    assert deploy(tiny_models.constant(folder, answer, name), dsn=dsn).version == version
    older = ask(db, "SELECT min(version) FROM dbinfer.model_versions WHERE name = %s", name)
    rows(db, "SELECT dbinfer.activate(%s, %s)", name, draw.choice([older, version]))
    rows(db, "SELECT dbinfer.activate(%s, %s)", name, version)
    if older < version - 2:
        rows(db, "SELECT dbinfer.drop_model(%s, %s)", name, older)


def churn(dsn: str, folder: Path, seconds: float) -> int:
    """Change versions for so long; return how many changes that were."""
    draw, changes, until = random.Random(0), 0, time.monotonic() + seconds
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        while time.monotonic() < until:
            change(db, dsn, folder, draw)
            changes += 4
    return changes


def run(dsn: str, folder: Path, crowd: Crowd) -> tuple[list[Tally], int]:
    """Let the crowd score while versions come and go; return what each session saw, and how many changes there were."""
    context = multiprocessing.get_context("spawn")
    results, start = context.Queue(), context.Barrier(crowd.sessions + 1)
    everybody = [
        context.Process(target=session, args=(dsn, crowd, number, start, results))
        for number in range(crowd.sessions)
    ]
    for process in everybody:
        process.start()
    start.wait()
    changes = churn(dsn, folder, crowd.seconds)
    tallies = [results.get(timeout=300) for _ in everybody]
    for process in everybody:
        process.join(60)
    return tallies, changes
