"""dbinfer.estimate: a share or a mean of a whole table from a few of its rows.

How often its intervals cover the truth is tested where no server is needed, in tests/unit/test_session_sampling.py.
"""

from __future__ import annotations

import re
from typing import Any

import psycopg2
import pytest
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection
from red_tables import RED, red_table

ROWS = 4000
TABLE = """
CREATE TABLE public.many AS SELECT n AS id, n %% 4 AS camera, CASE WHEN n %% 8 = 0 THEN NULL ELSE n %% 10 END AS number,
    (CASE WHEN n %% 4 = 3 THEN %s::bytea ELSE %s::bytea END) || int4send(n) AS img FROM generate_series(1, 4000) n
"""


@pytest.fixture(scope="module", autouse=True)
def table(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Pictures of which a quarter is red: those of camera 3."""
    red_table(dsn, tmp_path_factory.mktemp("irs"), "many", TABLE)


def estimate(db: Connection, answer: str, *more: str, table: str = "many") -> list[dict[str, Any]]:
    with db.cursor() as cursor:
        options = "".join(f", {one}" for one in more)
        cursor.execute(f"SELECT * FROM dbinfer.estimate('{table}', $${answer}$${options})")
        assert cursor.description
        return [dict(zip([column.name for column in cursor.description], row, strict=True)) for row in cursor]


def close(found: dict[str, Any], truth: float, within: float) -> bool:
    """One in 20 intervals may miss the truth; one in millions misses it by another such width."""
    assert found["low"] <= found["estimate"] <= found["high"]
    assert (found["high"] - found["low"]) / 2 <= within
    return bool(found["low"] - within < truth < found["high"] + within)


def test_a_share(db: Connection) -> None:
    (found,) = estimate(db, RED, "within => 0.05")
    assert close(found, 0.25, 0.05)
    assert found["scored"] < 1000
    assert (found["rows"], found["unknown"], found["part"]) == (ROWS, 0, None)
    assert ask(db, "SELECT to_regclass('pg_temp.dbinfer_sample')") is None


def test_a_mean_of_numbers_knows_nothing_of_rows_without_one(db: Connection) -> None:
    truth = float(ask(db, "SELECT avg(number) FROM many"))
    # NaN and the infinite are no numbers, either
    odd = (
        "CASE id % 8 WHEN 0 THEN CASE id % 16 WHEN 0 THEN 'NaN'::float8 ELSE '-Infinity' END ELSE number END"
    )
    (found,) = estimate(db, odd, "within => 0.3")
    assert close(found, truth, 0.3)
    assert 0.05 < found["unknown"] < 0.25
    assert found["scored"] < ROWS


def test_a_line_for_each_group(db: Connection) -> None:
    found = estimate(db, RED, "within => 0.05", "by => 'camera'")
    assert [one["part"] for one in found] == ["0", "1", "2", "3"]
    assert all(close(one, float(one["part"] == "3"), 0.05) for one in found)
    assert all(one["rows"] == ROWS / 4 and one["scored"] < ROWS / 4 for one in found)


def test_a_proxy_saves_rows(db: Connection) -> None:
    (without,) = estimate(db, RED, "within => 0.03")
    (found,) = estimate(db, RED, "within => 0.03", "proxy => '(camera = 3)::integer'")
    assert close(found, 0.25, 0.03)
    assert found["scored"] < without["scored"] / 2


def test_rows_without_an_answer_widen_the_bounds(db: Connection) -> None:
    """A tenth of the rows has no answer: the truth may be anything from 0 of them to all."""
    (found,) = estimate(db, "CASE WHEN id % 10 > 0 THEN id % 4 = 3 END", "within => 0.04")
    assert found["low"] < 0.225 + 0.04 < 0.325 - 0.04 < found["high"]
    # five standard deviations of a sample's share
    assert abs(found["unknown"] - 0.1) < 5 * (0.1 * 0.9 / found["scored"]) ** 0.5
    assert abs(found["estimate"] - 5 / 18) < 5 * (0.25 / found["scored"]) ** 0.5


def test_all_rows_are_scored_where_so_few_are_there(db: Connection) -> None:
    (found,) = estimate(db, RED, "within => 0.00001")
    assert (found["scored"], found["low"], found["estimate"], found["high"]) == (ROWS, 0.25, 0.25, 0.25)
    rows(db, "CREATE TEMP VIEW few AS SELECT * FROM many WHERE id <= 8")
    (found,) = estimate(db, RED, table="few")
    assert (found["scored"], found["low"], found["high"]) == (8, 0.25, 0.25)
    rows(db, "CREATE OR REPLACE TEMP VIEW few AS SELECT * FROM many WHERE false")
    assert estimate(db, RED, table="few") == []
    (found,) = estimate(db, "NULL::boolean", table="many")
    assert (found["scored"], found["estimate"], found["unknown"]) == (ROWS, None, 1)


def test_with_the_callers_rights(db: Connection) -> None:
    rows(db, "CREATE TABLE public.private AS SELECT * FROM many WHERE id <= 300")
    try:
        with role(db):
            refused(db, "42501", f"SELECT * FROM dbinfer.estimate('public.private', $${RED}$$)")
            refused(
                db,
                "42501",
                "SELECT * FROM dbinfer.estimate('public.many', 'pg_read_file(''/etc/hosts'') = ''''')",
            )
    finally:
        rows(db, "DROP TABLE public.private")


def same(found: dict[str, Any]) -> Any:
    """Sums of the same numbers in another order."""
    return pytest.approx(found)


def paid(db: Connection) -> tuple[int, int]:
    """Return how many rows the last notice calls scored, and how many known."""
    found = re.search(r"(\d+)(?: of \d+)? rows scored,(?: .*,)? (\d+) known from kept", db.notices[-1])
    assert found
    return int(found[1]), int(found[2])


def test_rows_that_are_kept_are_not_scored_again(db: Connection) -> None:
    """The same question meets the same rows, asked more closely and by find, too; of another nothing is known."""
    kept = "answers => 'kept'"
    try:
        (first,) = estimate(db, RED, "within => 0.05", kept)
        assert close(first, 0.25, 0.05)
        assert paid(db) == (first["scored"], 0)
        assert estimate(db, RED, "within => 0.05", kept) == [same(first)]
        assert paid(db) == (0, first["scored"])
        (closer,) = estimate(db, RED, "within => 0.03", kept)
        assert close(closer, 0.25, 0.03)
        assert paid(db) == (closer["scored"] - first["scored"], first["scored"])
        assert ask(db, "SELECT count(*) FROM kept") == closer["scored"]
        rows(db, f"SELECT * FROM dbinfer.find('many', $${RED}$$, k => 5, {kept})")
        assert paid(db)[0] == paid(db)[1] > 0
        estimate(db, f"NOT {RED}", "within => 0.05", kept)
        assert paid(db)[1] == 0
        rows(db, "SELECT dbinfer.set_alias('colours', 'other', 1)")
        assert estimate(db, RED, "within => 0.05", kept) == [same(first)]
        assert paid(db) == (first["scored"], 0)
    finally:
        rows(db, "DROP TABLE IF EXISTS kept")


def test_kept_numbers_and_rows_without_an_answer(db: Connection) -> None:
    """Of groups and with a proxy, too."""
    by = ("by => 'camera'", "proxy => 'id'", "answers => 'kept'")
    try:
        for answer in ("number", "CASE WHEN id % 10 > 0 THEN id % 4 = 3 END"):
            first = estimate(db, answer, "within => 0.4", *by)
            total = sum(one["scored"] for one in first)
            assert paid(db) == (total, 0)
            assert all(one["unknown"] > 0 for one in first if one["part"] == "0")
            assert estimate(db, answer, "within => 0.4", *by) == [same(one) for one in first]
            assert paid(db) == (0, total)
    finally:
        rows(db, "DROP TABLE IF EXISTS kept")


def test_who_keeps(db: Connection) -> None:
    """Only who has the right to a table of answers; one of before 0.9.0 keeps no numbers."""
    plain = "key text, question text, row_digest text, models text, answer boolean, scored_at timestamptz"
    rows(db, f"CREATE TABLE public.kept ({plain}); GRANT SELECT ON public.many TO PUBLIC")
    try:
        with role(db), pytest.raises(psycopg2.Error, match="permission denied for table kept"):
            estimate(db, "id > 9", "answers => 'public.kept'", table="public.many")
        estimate(db, "id > 9", "within => 0.05", "answers => 'kept'")
        assert paid(db)[0] > 0
        with pytest.raises(psycopg2.Error, match="the table kept for answers has no column number") as caught:
            estimate(db, "number", "answers => 'kept'")
        assert "ADD number double precision" in caught.value.diag.message_hint
    finally:
        rows(db, "DROP TABLE public.kept; REVOKE SELECT ON public.many FROM PUBLIC")


WRONG = {
    "within => 0": "within is 0, but must be more than 0",
    "within => 'NaN'": "within is NaN",
    "confidence => 95": "confidence is 95, but must be from 0.5 to 0.9999",
    "id_column => 'camera'": 'column "camera" of many has the same value in several rows',
    "id_column => 'nothing'": 'column "nothing" does not exist',
    "by => 'nothing'": 'column "nothing" does not exist',
    "answers => 'many'": "the table many for answers has no column key, question, row_digest, models, scored_at",
    "answers => '\"Odd\"'": 'the table "Odd" for answers does not exist',
}


def test_what_cannot_be_estimated_is_one_sentence(db: Connection, subtests: pytest.Subtests) -> None:
    for option, told in WRONG.items():
        with subtests.test(option=option), pytest.raises(psycopg2.Error) as caught:
            estimate(db, RED, option)
        assert told in caught.value.diag.message_primary
    with pytest.raises(
        psycopg2.Error, match="the answer is of type text, but must be true or false, or a number"
    ):
        estimate(db, "(dbinfer.classify(img, 'colours')).label")
    with pytest.raises(psycopg2.Error, match="cannot open multi-query plan as cursor"):
        estimate(db, "true) AS y FROM many) s ON true; SELECT 1 FROM (SELECT 1) o LEFT JOIN (SELECT (true")
    with pytest.raises(psycopg2.Error, match='model "none" does not exist'):
        estimate(db, "(dbinfer.classify(img, 'none')).label = 'red'")
    assert ask(db, "SELECT to_regclass('pg_temp.dbinfer_sample')") is None


@pytest.mark.wide
@pytest.mark.postgres_only("the segments of a cluster end before the ten seconds after which it tells")
def test_a_slow_one_tells_how_far_it_is(db: Connection) -> None:
    db.notices.clear()  # type: ignore[attr-defined]
    (found,) = estimate(db, "pg_sleep(0.06) IS NOT NULL AND id % 4 = 3", "within => 0.04")
    assert close(found, 0.25, 0.04)
    assert any("of 4000 rows scored: 0." in notice for notice in db.notices)
