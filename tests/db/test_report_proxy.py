"""proxy: what find has kept of a question teaches a regression on embeddings, and the next question costs less."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
from asking import role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from typer.testing import CliRunner

import dbinfer
from dbinfer.base.errors import DataError, UsageError
from dbinfer.cli.app import app

ROWS = 20_000
# one of twelve is rare; four numbers of the embedding tell it with some noise, the others are noise alone
TABLE = """
CREATE TABLE public.scans (id integer PRIMARY KEY, rare boolean);
INSERT INTO public.scans SELECT n, n % 12 = 5 FROM generate_series(1, 20000) n;
CREATE TABLE public.vectors (id integer PRIMARY KEY, embedding real[]);
INSERT INTO public.vectors SELECT v.id, array_agg(v.value) AS embedding FROM (
    SELECT s.id, (random() + random() - 1 + CASE WHEN s.rare AND k <= 4 THEN 1 ELSE 0 END)::real AS value
      FROM public.scans s, generate_series(1, 16) k ORDER BY s.id, k) v GROUP BY v.id;
"""
OPTIONS = dbinfer.ProxyOptions(embeddings="public.vectors")


@pytest.fixture(scope="module")
def db(dsn: str) -> Iterator[Connection]:
    """Rows, their embeddings, and the answers that an estimate has kept."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "SELECT setseed(0.3)")
        rows(connection, TABLE)
        rows(connection, "ANALYZE public.scans; ANALYZE public.vectors")
        ask_share(connection, "rare", "within => 0.02")
        yield connection


def ask_share(db: Connection, question: str, *more: str) -> int:
    """Return how many rows an estimate has scored."""
    options = ", ".join([*more, "answers => 'public.kept_answers'"])
    query = f"SELECT scored FROM dbinfer.estimate('public.scans', $${question}$$, {options})"
    return int(rows(db, query)[0][0])


def test_a_proxy_makes_find_cheap(db: Connection, dsn: str) -> None:
    report = dbinfer.proxy("public.kept_answers", OPTIONS, dsn)
    assert (report.into, report.rows, report.question) == ("public.kept_answers_proxy", ROWS, "scans: rare")
    assert 0 < report.true < report.answers
    assert report.auc > 0.95
    assert len(report.bands) == 5
    # it sums to what was seen, and rises
    assert sum(band.said for band in report.bands) / 5 == pytest.approx(
        report.true / report.answers, abs=0.02
    )
    assert report.bands[0].true < 0.02
    assert report.bands[4].true > 0.2
    db.notices.clear()  # type: ignore[attr-defined]
    # other words, so that nothing is known
    question = "SELECT id FROM dbinfer.find('scans', $$ rare IS TRUE $$, recall => 0.9"
    found = rows(db, f"{question}, proxy => $${report.proxy}$$)")
    assert len(found) >= 0.8 * ROWS / 12
    scored = int(db.notices[-1].split("dbinfer: ")[1].split(" of ")[0])
    assert scored < ROWS / 2
    # the regression of scikit-learn and that of SQL are one
    again = dbinfer.proxy("public.kept_answers", OPTIONS, dsn)
    assert again == report
    assert rows(db, "SELECT count(*), count(DISTINCT id) FROM kept_answers_proxy") == [(ROWS, ROWS)]


def test_the_command(db: Connection, dsn: str) -> None:
    ask_share(db, "NOT rare", "within => 0.03")
    command = ["proxy", "public.kept_answers", "--embeddings", "public.vectors", "--into", "public.other"]
    done = CliRunner().invoke(app, [*command, "--dsn", dsn, "--question", "NOT"])
    assert done.exit_code == 0, done.output
    assert "public.other: 20000 rows, from " in done.output
    assert "true, to: NOT rare" in done.output
    assert "proxy => $$ (SELECT max(p.proxy) FROM public.other p WHERE p.id = scans.id) $$" in done.output
    # the last question, as JSON
    done = CliRunner().invoke(app, [*command, "--dsn", dsn, "--json"])
    assert '"question": "scans: NOT rare"' in done.stdout
    low = rows(
        db,
        "SELECT avg(proxy) FILTER (WHERE rare), avg(proxy) FILTER (WHERE NOT rare) FROM scans JOIN other USING (id)",
    )
    assert low[0][0] < 0.5 < low[0][1]


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no table": ({"embeddings": "nothing"}, "table public.nothing does not exist"),
    "no embedding": ({"embeddings": "scans"}, "scans has the columns id, rare, but no embedding"),
    "no key": ({"key": "number"}, "vectors has the columns id, embedding, but no number"),
    "no question": ({"question": "'7'"}, "kept_answers has no answer to a question with \"'7'\""),
    "not its table": ({"into": "scans"}, "table public.scans has the columns id, rare, not id, proxy"),
    "twice": ({"embeddings": "doubled"}, 'column "id" of the embeddings has the same value in several rows'),
    "no numbers": ({"embeddings": "broken"}, "an embedding holds NULL, NaN or an infinite number"),
    "of two models": ({"embeddings": "mixed"}, "with embeddings of one length"),
}


def test_what_teaches_nothing_is_one_sentence(db: Connection, dsn: str, subtests: pytest.Subtests) -> None:
    rows(db, "CREATE VIEW public.doubled AS SELECT * FROM vectors UNION ALL SELECT * FROM vectors")
    rows(db, "CREATE VIEW public.mixed AS SELECT id, embedding[1:8 + id % 2] AS embedding FROM vectors")
    rows(
        db,
        "CREATE VIEW public.broken AS SELECT id, embedding || ARRAY['NaN'::real] AS embedding FROM vectors",
    )
    for name, (values, told) in WRONG.items():
        with subtests.test(name), pytest.raises(DataError) as caught:
            dbinfer.proxy(
                "public.kept_answers", dbinfer.ProxyOptions(**{"embeddings": "vectors"} | values), dsn
            )
        assert told in str(caught.value)
        assert caught.value.hint
    with pytest.raises(UsageError, match="is not a table's name"):
        dbinfer.proxy("a.b.c", OPTIONS, dsn)
    ask_share(db, "id > 0", "within => 0.05")
    with pytest.raises(
        DataError, match=r"^of \d+ answers to the question 'scans: id > 0' \d+ are true, but a proxy"
    ):
        dbinfer.proxy("public.kept_answers", OPTIONS, dsn)
    rows(db, "DELETE FROM public.kept_answers WHERE question = 'scans: id > 0'")


def test_with_the_callers_rights(db: Connection, dsn: str) -> None:
    with role(db) as name, pytest.raises((DataError, psycopg2.Error), match=r"permission denied"):
        dbinfer.proxy("public.kept_answers", OPTIONS, make_dsn(dsn, options=f"-c role={name}"))
