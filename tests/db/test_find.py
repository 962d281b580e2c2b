"""dbinfer.find: the rows that fulfil a condition, of which few are scored.

How often it keeps its promise is tested where no server is needed, in tests/unit/test_session_finding.py.
"""

from __future__ import annotations

import psycopg2
import pytest
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection
from red_tables import RED, red_table

ROWS = 4000
# a good one: the red ones are of camera 9
GOOD = "camera + (hashint4(id) % 100) / 100.0"
TABLE = """
CREATE TABLE public.shots AS SELECT n AS id, n %% 10 AS camera, 'p' || n AS name,
    (CASE WHEN n %% 10 = 9 THEN %s::bytea ELSE %s::bytea END) || int4send(n) AS img FROM generate_series(1, 4000) n
"""


@pytest.fixture(scope="module", autouse=True)
def table(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pictures of which a tenth is red: those of camera 9."""
    red_table(dsn, tmp_path_factory.mktemp("irs"), "shots", TABLE)


def find(db: Connection, condition: str, *more: str, table: str = "shots", what: str = "id") -> list[tuple]:  # type: ignore[type-arg]
    db.notices.clear()  # type: ignore[attr-defined]
    options = "".join(f", {one}" for one in more)
    return rows(db, f"SELECT {what} FROM dbinfer.find('{table}', $${condition}$${options})")


def told(db: Connection) -> str:
    (notice,) = [one for one in db.notices if "rows scored" in one]
    return str(notice)


def scored(db: Connection) -> int:
    return int(told(db).split("dbinfer: ")[1].split(" of ")[0])


def test_most_of_those_that_fulfil_it(db: Connection) -> None:
    found = find(db, RED, f"proxy => '{GOOD}'", "recall => 0.9", what="id, key, checked")
    assert len(set(found)) == len(found) >= 0.8 * ROWS / 10
    assert all(one % 10 == 9 and key == str(one) and checked for one, key, checked in found)
    assert scored(db) < ROWS / 2
    assert "are left out unseen (at most " in told(db)
    assert ask(db, "SELECT to_regclass('pg_temp.dbinfer_sample')") is None


def test_a_useless_proxy_costs_more_and_is_told(db: Connection) -> None:
    found = find(db, RED, "proxy => 'hashint4(id)'", "recall => 0.9")
    assert len(found) >= 0.8 * ROWS / 10
    assert scored(db) > 0.75 * ROWS
    assert "the proxy saved little" in told(db)


def test_rows_taken_unseen(db: Connection) -> None:
    """Half of the rows fulfil it: with a precision below 1 not all of them need be scored."""
    found = find(
        db,
        "id % 2 = 0",
        "proxy => 'id % 2 * -100 + camera'",
        "recall => 0.9",
        "precise => 0.9",
        what="id, checked",
    )
    right = sum(one % 2 == 0 for one, _ in found)
    assert right >= 0.8 * len(found)
    assert right >= 0.8 * ROWS / 2
    assert {checked for _, checked in found} == {True, False}
    assert scored(db) < ROWS / 2
    assert "are taken unseen (at most" in told(db)
    assert "precision at least 0.9" in told(db)


def test_the_first_k_most_promising_first(db: Connection) -> None:
    found = find(db, RED, "proxy => 'id'", "k => 5")
    assert found == [(3999,), (3989,), (3979,), (3969,), (3959,)]
    assert scored(db) < 200
    # where fewer fulfil it, all rows are scored; without a proxy, in any order
    assert sorted(find(db, "id < 4", "k => 5")) == [(1,), (2,), (3,)]
    assert scored(db) == ROWS
    assert len(find(db, RED, "k => 3")) == 3


def test_keys_views_and_odd_proxies(db: Connection) -> None:
    rows(
        db,
        "CREATE TEMP VIEW few AS SELECT name, camera, nullif(camera, id) AS odd FROM shots WHERE id <= 40",
    )
    found = find(
        db, "camera = 9", "id_column => 'name'", "proxy => 'odd'", "recall => 1", table="few", what="id, key"
    )
    assert sorted(found) == [(None, "p19"), (None, "p29"), (None, "p39"), (None, "p9")]
    # an answer of NULL is no yes; and nothing to find is found by looking at all
    assert find(db, "NULL::boolean", "id_column => 'name'", table="few") == []
    assert "40 of 40 rows scored, 0 of them true, 40 without an answer; recall at least 1" in told(db)
    rows(db, "CREATE OR REPLACE TEMP VIEW few AS SELECT name, camera, id AS odd FROM shots WHERE false")
    assert find(db, "camera = 9", "id_column => 'name'", table="few") == []
    assert find(db, "camera = 9", "id_column => 'name'", "k => 2", table="few") == []
    mixed = "CASE id % 4 WHEN 0 THEN 'NaN'::float8 WHEN 1 THEN 'Infinity' WHEN 2 THEN '-Infinity' END"
    assert len(find(db, "camera = 9", f"proxy => $p${mixed}$p$", "recall => 0.99")) >= 390


@pytest.mark.wide
def test_a_uuid_as_key_loses_no_row(db: Connection) -> None:
    """Greenplum 7 sorts uuids otherwise than it compares them, so a merge join would: docs/how-to/greenplum.md."""
    rows(db, "CREATE TABLE coded (k uuid PRIMARY KEY, camera integer)")
    rows(db, "INSERT INTO coded SELECT md5(id::text)::uuid, camera FROM shots")
    rows(db, "ANALYZE coded; SET enable_hashjoin = off")
    assert len(find(db, "camera = 9", "k => 4000", "id_column => 'k'", table="coded", what="key")) == 400
    exact = "SELECT estimate, scored FROM dbinfer.estimate('coded', 'camera = 9', id_column => 'k', within => 0.0001)"
    assert rows(db, exact) == [(0.1, ROWS)]
    rows(db, "RESET enable_hashjoin; DROP TABLE coded")


@pytest.mark.wide
def test_with_the_callers_rights(db: Connection) -> None:
    rows(db, "CREATE TABLE public.private AS SELECT * FROM shots WHERE id <= 300")
    try:
        with role(db):
            refused(db, "42501", f"SELECT * FROM dbinfer.find('public.private', $${RED}$$)")
            refused(
                db,
                "42501",
                "SELECT * FROM dbinfer.find('public.shots', 'pg_read_file(''/etc/hosts'') = ''''')",
            )
    finally:
        rows(db, "DROP TABLE public.private")


@pytest.mark.wide
def test_row_level_security_and_partitions(db: Connection) -> None:
    rows(db, "CREATE TABLE public.parted (id int, camera int) PARTITION BY RANGE (id)")
    try:
        rows(db, "CREATE TABLE public.parted_1 PARTITION OF public.parted FOR VALUES FROM (0) TO (200)")
        rows(db, "CREATE TABLE public.parted_2 PARTITION OF public.parted FOR VALUES FROM (200) TO (500)")
        rows(db, "INSERT INTO public.parted SELECT n, n % 10 FROM generate_series(1, 400) n")
        assert len(find(db, "camera = 9", "recall => 1", table="parted")) == 40
        rows(db, "ALTER TABLE public.parted ENABLE ROW LEVEL SECURITY")
        rows(db, "CREATE POLICY first_hundred ON public.parted USING (id <= 100)")
        rows(db, "GRANT SELECT ON public.parted TO PUBLIC")
        with role(db):
            assert len(find(db, "camera = 9", "recall => 1", table="public.parted")) == 10
    finally:
        rows(db, "DROP TABLE public.parted")


WRONG = {
    "recall => 0": "recall is 0, but must be more than 0 and at most 1",
    "recall => 95": "recall is 95",
    "recall => 'NaN'": "recall is NaN",
    "precise => 1.5": "precise is 1.5, but must be more than 0 and at most 1",
    "confidence => 95": "confidence is 95, but must be from 0.5 to 0.9999",
    "k => 0": "k is 0, but must be 1 or more",
    "k => 3, recall => 0.9": "find gives the first k rows, or a recall, but was asked for both",
    "id_column => 'camera'": 'column "camera" of shots has the same value in several rows',
    "id_column => 'nothing'": 'column "nothing" does not exist',
    "answers => '\"Odd\"'": 'the table "Odd" for answers does not exist',
    "answers => 'shots'": "the table shots for answers has no column key",
    "proxy => 'nothing'": 'column "nothing" does not exist',
}


def test_what_cannot_be_found_is_one_sentence(db: Connection, subtests: pytest.Subtests) -> None:
    for option, sentence in WRONG.items():
        with subtests.test(option=option), pytest.raises(psycopg2.Error) as caught:
            find(db, RED, option)
        assert sentence in caught.value.diag.message_primary
    with pytest.raises(psycopg2.Error, match="the condition is of type text, but must be true or false"):
        find(db, "(dbinfer.classify(img, 'colours')).label")
    with pytest.raises(psycopg2.Error, match="cannot open multi-query plan as cursor"):
        find(db, "true) AS y FROM shots) s ON true; SELECT 1 FROM (SELECT 1) o LEFT JOIN (SELECT (true")
    # the server itself refuses it as a name before PostgreSQL 16, and finds nothing since
    with pytest.raises(psycopg2.Error, match=r"invalid name syntax|for answers does not exist"):
        find(db, RED, "answers => 'x (a int); DROP TABLE shots'")
    assert ask(db, "SELECT to_regclass('pg_temp.dbinfer_sample')") is None


@pytest.mark.wide
@pytest.mark.postgres_only("the segments of a cluster end before the ten seconds after which it tells")
def test_a_slow_one_tells_how_far_it_is(db: Connection) -> None:
    find(db, "pg_sleep(0.02) IS NOT NULL AND camera = 9", "proxy => 'camera'", "recall => 0.9")
    assert any("of 4000 rows scored, " in notice for notice in db.notices)


def known(db: Connection) -> int:
    return int(told(db).split(" true, ")[1].split(" known")[0])


def test_rows_that_are_kept_are_not_scored_again(db: Connection) -> None:
    """Until the row or a model has changed; of another condition nothing is known."""
    asked = (RED, "proxy => 'id'", "k => 30", "answers => 'kept_answers'")
    try:
        first = find(db, *asked)
        assert known(db) == 0
        paid = scored(db)
        assert ask(db, "SELECT count(*) FROM kept_answers") == paid
        assert find(db, *asked) == first
        assert (known(db), scored(db)) == (paid, paid)
        rows(db, "UPDATE shots SET name = 'another' WHERE id = 3999")
        assert find(db, *asked) == first
        assert known(db) == paid - 1
        # two sessions may have kept the same row
        rows(db, "INSERT INTO kept_answers SELECT * FROM kept_answers")
        assert find(db, *asked) == first
        assert (
            len(find(db, RED, f"proxy => '{GOOD}'", "recall => 0.9", "answers => 'kept_answers'"))
            >= 0.8 * ROWS / 10
        )
        assert 0 < known(db) < scored(db)
        find(db, f"NOT {RED}", "k => 3", "answers => 'kept_answers'")
        assert known(db) == 0
        rows(db, "SELECT dbinfer.set_alias('colours', 'other', 1)")
        assert find(db, *asked) == first
        assert known(db) == 0
    finally:
        rows(db, "DROP TABLE IF EXISTS kept_answers")
