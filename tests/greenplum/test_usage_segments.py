"""dbinfer.usage on a cluster: rows of segments, of the coordinator and of its reader count, each once."""

from __future__ import annotations

from contextlib import closing

import psycopg2
from asking import ask, role, rows
from psycopg2.extensions import connection as Connection

SHAPES = (
    ("SELECT count(dbinfer.predict(img, 'constant')) FROM images", 60),
    (
        "CREATE TEMP TABLE kept AS SELECT id, dbinfer.predict(img, 'constant') p FROM images DISTRIBUTED BY (id)",
        60,
    ),
    # above a Motion: on the coordinator
    ("SELECT dbinfer.predict(img, 'constant') FROM (SELECT img FROM images ORDER BY id LIMIT 3) s", 3),
    # on the coordinator's reader, where it is one
    (
        "SELECT id, (SELECT dbinfer.predict(img, 'constant') FROM images WHERE id = 5 LIMIT 1) FROM images",
        None,
    ),
)


def counted(db: Connection) -> int:
    return int(ask(db, "SELECT coalesce(sum(rows), 0)::integer FROM dbinfer.usage WHERE model = 'constant'"))


def test_rows_count_wherever_they_are_scored(session: Connection) -> None:
    rows(session, "SELECT dbinfer.set_setting('usage', 'on')")
    for query, expected in SHAPES:
        before = counted(session)
        rows(session, query)
        found = counted(session) - before
        assert found == expected if expected is not None else found > 0, query
    before = counted(session)
    for _ in range(2):
        rows(session, "SELECT dbinfer._keep_usage()")
        assert counted(session) == before
    rows(session, "SELECT dbinfer.set_setting('usage', 'off')")


def test_a_join_that_is_over_early_is_no_error(session: Connection, dsn: str) -> None:
    """Then a segment finds no row any more, and so no runtime to load; of fresh sessions one in ten met that."""
    models = "SELECT name AS model FROM dbinfer.models WHERE name = 'nobody'"
    for _ in range(40):
        with closing(psycopg2.connect(dsn)) as fresh:
            assert rows(fresh, f"SELECT u.role FROM dbinfer.usage u JOIN ({models}) m USING (model)") == []
            assert (
                rows(fresh, "SELECT role FROM dbinfer.usage WHERE model = 'nobody' ORDER BY last_used") == []
            )


def test_a_role_sees_its_own(session: Connection) -> None:
    rows(session, "SELECT dbinfer.set_setting('usage', 'on')")
    rows(session, "GRANT SELECT ON images TO PUBLIC")
    with role(session) as name:
        rows(session, "SELECT dbinfer.predict(img, 'constant') FROM images")
        assert rows(session, "SELECT model, role, rows FROM dbinfer.usage") == [("constant", name, 60)]
        rows(session, "RESET ROLE")
    rows(session, "SELECT dbinfer.set_setting('usage', 'off')")


def test_jobs_go_by_the_role_that_acts(session: Connection) -> None:
    facts = '{"source": "a", "target": "a", "function": "a", "model": "a", "version": 1, "connections": 1}'
    with role(session) as name:
        number = ask(session, "SELECT dbinfer._begin_job(%s, dbinfer._ask('dbinfer score'))", facts)
        assert rows(session, "SELECT id, role FROM dbinfer.jobs") == [(number, name)]
        rows(session, "SELECT dbinfer.cancel_job(%s)", number)
        tell = "SELECT dbinfer._tell_job(%s, 7, 9, 0, NULL, 'done', dbinfer._ask('dbinfer score'))"
        assert ask(session, tell, number) is True
