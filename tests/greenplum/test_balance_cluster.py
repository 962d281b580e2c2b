"""doctor on a cluster: its name and features, tables on one segment, hosts with more segments than cores."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from asking import ask, role, rows
from plans import PLANNERS
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.backends import Check
from dbinfer.doctor import doctor
from dbinfer.errors import InstallError
from dbinfer.install import install, upgrade
from dbinfer.platform import detect
from dbinfer.relatives.features import NEEDED

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
    assert "without gp_role=utility" in caught.value.cure


def test_doctor_in_utility_mode_says_so(cluster: str) -> None:
    """It ended with: current transaction is aborted."""
    checks = doctor(make_dsn(cluster, options="-c gp_role=utility")).checks
    assert [check.name for check in checks if not check.ok] == ["server"]
    assert "utility mode" in checks[-1].detail
