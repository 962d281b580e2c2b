"""classify_table is local on every segment with both planners: one state of each moves, with few images."""

from __future__ import annotations

import pytest
from asking import ask, refused, rows
from psycopg2.extensions import connection as Connection

BATCH = 32
CALL = "dbinfer.classify_table('images', 'colours')"


def statement(session: Connection, model: str = "colours") -> str:
    """Return the statement inside classify_table."""
    query = "SELECT dbinfer._batch_query('images', 'id', 'img', %s, 'error')"
    return str(ask(session, query, model))


def test_results_are_those_of_the_rows(session: Connection) -> None:
    labels = dict(rows(session, "SELECT id, label FROM images"))
    assert dict(rows(session, f"SELECT id, label FROM {CALL}")) == labels
    assert rows(session, f"SELECT label, count(*) FROM {CALL} WHERE score > 200 GROUP BY 1 ORDER BY 1") == [
        ("blue", 20),
        ("green", 20),
        ("red", 20),
    ]


def test_rows_are_scored_below_the_motion(session: Connection) -> None:
    """The one Motion carries states; in EXPLAIN, brackets around _batch(...) stand for a value from below."""
    plan = [row[0].strip() for row in rows(session, f"EXPLAIN (VERBOSE, COSTS OFF) {statement(session)}")]
    print("\n" + "\n".join(plan))
    motions = [i for i, line in enumerate(plan) if "Motion" in line]
    called = [i for i, line in enumerate(plan) if line.startswith("Output: dbinfer._batch(")]
    assert len(motions) == len(called) == 1
    assert called[0] > motions[0]
    assert plan[motions[0] + 1].startswith("Output: (PARTIAL count(*)), (PARTIAL dbinfer._collect(")
    assert plan[motions[0] + 1].count("(PARTIAL ") == 3


def test_less_than_a_batch_of_each_segment_is_left(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS more")
    rows(
        session,
        "CREATE TABLE more AS SELECT n AS id, img FROM generate_series(1, 500) n, images i WHERE i.id = n % 60",
    )
    query = statement(session).replace("FROM images", "FROM more")
    _total, batches, waiting = rows(session, f"SELECT a, b::text[], c FROM ({query}) x(a, b, c)")[0]
    sizes = {batch.split("}")[0].count(",") + 1 for batch in batches}
    assert sizes == {BATCH}
    each = [row[0] for row in rows(session, "SELECT count(*) FROM more GROUP BY gp_segment_id")]
    assert len(batches) == sum(count // BATCH for count in each)
    assert waiting.count(";") == sum(count % BATCH for count in each)


def test_results_go_into_a_table(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS kept")
    rows(session, "CREATE TABLE kept (id bigint, class integer, label text, score real) DISTRIBUTED BY (id)")
    assert ask(session, "SELECT dbinfer.classify_into('kept', 'images', 'colours')") == 60
    assert rows(session, "SELECT count(*) FROM kept k JOIN images i USING (id) WHERE k.label = i.label") == [
        (60,)
    ]


@pytest.mark.parametrize(
    "query",
    [
        f"SELECT count(*) FROM {CALL} c JOIN images i USING (id)",
        f"CREATE TABLE never AS SELECT * FROM {CALL} DISTRIBUTED BY (id)",
    ],
)
def test_in_other_statements_it_says_what_to_do(session: Connection, query: str) -> None:
    diag = refused(session, "0A000", query)
    assert "cannot read a table from within this statement" in diag.message_primary
    assert "dbinfer.classify_into" in diag.message_hint


def test_a_bad_row_on_a_segment_is_one_error(session: Connection) -> None:
    rows(session, "DROP TABLE IF EXISTS spoilt")
    rows(
        session,
        "CREATE TABLE spoilt AS SELECT id, CASE id WHEN 44 THEN 'no image'::bytea ELSE img END AS img FROM images",
    )
    diag = refused(session, "22P03", "SELECT * FROM dbinfer.classify_table('spoilt', 'colours')")
    assert "dbinfer" in diag.message_primary
    query = "SELECT id FROM dbinfer.classify_table('spoilt', 'colours', 'null') WHERE class IS NULL"
    assert rows(session, query) == [(44,)]
