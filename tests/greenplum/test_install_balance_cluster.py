"""doctor on a cluster: its name and features, tables on one segment, crowded hosts, plans that move images."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from asking import ask, refused, role, rows
from plans import PLANNERS, asked_for
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import InstallError, ServerError
from dbinfer.database.backends import Check
from dbinfer.database.platform import NEEDED, detect
from dbinfer.install import install, upgrade
from dbinfer.install.balance import moving_images
from dbinfer.install.doctor import DoctorOptions, doctor

# 40 MB: more than what is worth a word
FILL = "INSERT INTO {} SELECT 1, i, decode(repeat('ab', 1000000), 'hex') FROM generate_series(1, 40) i"


@pytest.fixture(scope="module")
def piled(cluster: str) -> Iterator[str]:
    """A table of 40 MB on one segment, one that is even, a replicated one; the dsn of a database with them."""
    tables = {
        "piled": "DISTRIBUTED BY (key)",
        '"Even one"': "DISTRIBUTED BY (id)",
        "copied": "DISTRIBUTED REPLICATED",
    }
    with closing(psycopg2.connect(cluster)) as connection:
        connection.autocommit = True
        for table, distributed in tables.items():
            rows(connection, f"CREATE TABLE {table} (key integer, id integer, img bytea) {distributed}")
            rows(connection, f"ALTER TABLE {table} ALTER img SET STORAGE EXTERNAL")
            rows(connection, FILL.format(table))
        try:
            yield cluster
        finally:
            rows(connection, f"DROP TABLE {', '.join(tables)}")


def found(dsn: str, name: str) -> Check:
    (check,) = [check for check in doctor(dsn).checks if check.name == name]
    return check


@pytest.mark.parametrize("planner", PLANNERS)
def test_a_table_on_one_segment_is_named(piled: str, planner: str) -> None:
    check = found(make_dsn(piled, options=f"-c optimizer={PLANNERS[planner]}"), "skew")
    assert not check.ok
    assert check.detail.startswith("public.piled: segment ")
    assert check.detail.endswith(" times its share")
    assert "Even" not in check.detail + check.hint
    assert "copied" not in check.detail + check.hint
    assert check.hint.startswith("ALTER TABLE public.piled SET DISTRIBUTED BY (")


def test_the_cure_helps(piled: str) -> None:
    with closing(psycopg2.connect(piled)) as connection:
        connection.autocommit = True
        rows(connection, "ALTER TABLE piled SET DISTRIBUTED BY (id)")
        assert found(piled, "skew").ok
        rows(connection, "ALTER TABLE piled SET DISTRIBUTED BY (key)")


def test_a_table_that_somebody_holds_keeps_nobody_waiting(piled: str) -> None:
    with closing(psycopg2.connect(piled)) as other:
        rows(other, "LOCK TABLE piled IN ACCESS EXCLUSIVE MODE")
        check = found(piled, "skew")
    assert check.ok
    assert check.detail.startswith("not looked at: ")
    assert "lock timeout" in check.detail


def test_segments_are_counted_against_cores(cluster: str) -> None:
    check = found(cluster, "load")
    with closing(psycopg2.connect(cluster)) as connection:
        hosts = rows(connection, "SELECT host, count(*), min(cores) FROM dbinfer.segments GROUP BY host")
    for host, segments, cores in hosts:
        if segments > cores:
            assert (
                f"{host}: {segments} processes score at once, 1 thread each, on {cores} cores" in check.detail
            )
    assert check.ok is all(segments <= 2 * cores for _, segments, cores in hosts)


def test_a_role_that_sees_no_hosts_gets_no_such_line(session: Connection, cluster: str) -> None:
    with role(session) as name:
        report = doctor(make_dsn(cluster, options=f"-c role={name}"))
    assert "load" not in [check.name for check in report.checks]


def test_the_server_is_named_with_its_features(session: Connection, cluster: str) -> None:
    platform = detect(session)
    assert platform.features.found == tuple(NEEDED)
    assert platform.features.role == "dispatch"
    assert platform.features.orca == ask(session, "SHOW optimizer")
    assert found(cluster, "server").detail == str(platform)
    assert f"{platform.segments} segments" in str(platform)
    features = found(cluster, "features")
    assert features.ok
    assert "EXECUTE ON ALL SEGMENTS" in features.detail


@pytest.mark.parametrize("verb", [install, upgrade])
def test_a_session_in_utility_mode_is_refused(cluster: str, verb: object) -> None:
    """It reaches the coordinator alone: what it makes there the segments do not have."""
    with pytest.raises(InstallError, match="utility mode") as caught:
        verb(dsn=make_dsn(cluster, options="-c gp_role=utility"))  # type: ignore[operator]
    assert "without gp_role=utility" in caught.value.hint


def test_doctor_in_utility_mode_says_so(cluster: str) -> None:
    """It ended with: current transaction is aborted."""
    checks = doctor(make_dsn(cluster, options="-c gp_role=utility")).checks
    assert [check.name for check in checks if not check.ok] == ["server"]
    assert "utility mode" in checks[-1].detail


# of 60 rows, 20 are red; the planner expects one
FEW = "label || '' = 'red'"
MODEL = "CASE WHEN id >= 0 THEN 'colours' ELSE 'constant' END"
# with what each planner moves
STATEMENTS = {
    "SELECT id, img, dbinfer.predict(img, 'colours') FROM images": (),
    "CREATE TABLE t AS SELECT id, dbinfer.predict(img, 'colours') p FROM images DISTRIBUTED BY (id)": (),
    "SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM images": (),
    f"SELECT sum((dbinfer.predict(img, 'colours'))[1]) FROM images WHERE {FEW}": ("PostgreSQL-based",),
    f"SELECT sum((dbinfer.predict(img, {MODEL}))[1]) FROM images WHERE {FEW}": ("PostgreSQL-based",),
    "SELECT label, count(dbinfer.predict(img, 'colours')) FROM images GROUP BY label": ("PostgreSQL-based",),
    "SELECT json_agg(dbinfer.predict(img, 'colours')) FROM images": tuple(PLANNERS),
    "SELECT dbinfer.predict(img, 'colours') FROM (SELECT img FROM images LIMIT 3) s": tuple(PLANNERS),
    "SELECT dbinfer.predict(s.picture, 'colours') FROM (SELECT img AS picture FROM images LIMIT 3) s": tuple(
        PLANNERS
    ),
    "SELECT dbinfer.predict(img, 'colours') FROM images WHERE id = (SELECT max(id) FROM images)": (),
    "SELECT p FROM images i, LATERAL dbinfer.predict(i.img, 'colours') p": (),
}
# what docs/how-to/greenplum.md says to write
INSTEAD = (
    f"SELECT sum(p[1]) FROM (SELECT dbinfer.predict(img, 'colours') p FROM images WHERE {FEW} OFFSET 0) s",
    f"SELECT sum(p[1]) FROM (SELECT dbinfer.predict(img, {MODEL}) p FROM images WHERE {FEW} OFFSET 0) s",
    "SELECT label, count(p) FROM (SELECT label, dbinfer.predict(img, 'colours') p FROM images OFFSET 0) s GROUP BY 1",
    "SELECT json_agg(p) FROM (SELECT dbinfer.predict(img, 'colours') p FROM images OFFSET 0) s",
)


def test_plans_that_move_images_are_named(session: Connection) -> None:
    planner = asked_for(session)
    moved = [query for query in STATEMENTS if not moving_images(session, query).ok]
    assert moved == [query for query, planners in STATEMENTS.items() if planner in planners]
    assert [query for query in INSTEAD if not moving_images(session, query).ok] == []


def test_an_inner_query_scores_where_the_rows_lie(session: Connection) -> None:
    """Above a Motion, the coordinator cannot look up a model whose name is in a column."""
    above = f"SELECT sum((dbinfer.predict(img, {MODEL}))[1]) FROM images WHERE {FEW}"
    if ask(session, "SHOW optimizer") == "off":
        refused(session, "0A000", above)
    else:
        assert ask(session, above) == 5000
    assert [ask(session, query) for query in INSTEAD[:2]] == [5000, 5000]


def test_doctor_looks_at_a_statement(cluster: str) -> None:
    report = doctor(DoctorOptions("SELECT json_agg(dbinfer.predict(img, 'colours')) FROM images"), cluster)
    assert [check.name for check in report.checks if not check.ok and check.name != "load"] == ["query"]


def test_a_statement_that_cannot_be_planned_is_told_in_a_sentence(cluster: str) -> None:
    with pytest.raises(ServerError, match='relation "nowhere" does not exist'):
        doctor(DoctorOptions("SELECT dbinfer.predict(img) FROM nowhere"), cluster)
