"""What an operator of the cluster sees: segments, doctor, warm-up, idle timeout, errors that tell where."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
from asking import ask, refused, rows
from breakable import lose_venv
from psycopg2.extensions import connection as Connection
from typer.testing import CliRunner

from dbinfer.base.errors import InstallError
from dbinfer.cli.app import app
from dbinfer.install import InstallOptions, install, upgrade
from dbinfer.install.doctor import doctor


def test_one_row_a_segment(session: Connection) -> None:
    found = rows(
        session, "SELECT content, host, cores, threads, problem, runtime_digest FROM dbinfer.segments"
    )
    contents = rows(session, "SELECT content FROM gp_segment_configuration WHERE role = 'p' AND content >= 0")
    assert sorted(row[:1] for row in found) == sorted(contents)
    for _content, host, cores, threads, problem, digest in found:
        here = sum(row[1] == host for row in found)
        assert problem is None
        assert len(digest) == 64
        assert threads == max(1, cores // here)


def test_doctor_is_content(cluster: str) -> None:
    result = CliRunner().invoke(app, ["doctor", "--dsn", cluster, "--json"])
    print(result.output)
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["ok"] is True
    assert {"segments"} <= {check["name"] for check in report["checks"]}


def test_doctor_looks_at_the_coordinator(cluster: str) -> None:
    names = [check.name for check in doctor(cluster).checks]
    for what in ("python", "packages", "cache", "runtime"):
        assert any(name.startswith("coordinator (") and name.endswith(what) for name in names), names


@pytest.fixture
def expanded(cluster: str) -> Iterator[int]:
    """What the catalog says between the phases of gpexpand: a table of ours is not on the last segment."""
    change = "UPDATE gp_distribution_policy SET numsegments = numsegments {} WHERE localoid = {}::regclass"
    with closing(psycopg2.connect(cluster, options="-c allow_system_table_mods=on")) as connection:
        connection.autocommit = True
        rows(connection, change.format("- 1", "'dbinfer_private.part'"))
        try:
            yield ask(
                connection, "SELECT count(*) FROM gp_segment_configuration WHERE role = 'p' AND content >= 0"
            )
        finally:
            rows(connection, change.format("+ 1", "'dbinfer_private.part'"))


def test_between_the_phases_of_gpexpand(cluster: str, expanded: int) -> None:
    """doctor said `dbinfer upgrade`, and upgrade that nothing is to be done."""
    (check,) = [check for check in doctor(cluster).checks if not check.ok]
    assert f"on {expanded - 1} of {expanded} segments" in check.detail
    assert check.hint.startswith("finish gpexpand with its second phase")
    with pytest.raises(InstallError, match=f"on {expanded - 1} of {expanded} segments") as caught:
        upgrade(dsn=cluster)
    assert caught.value.hint == check.hint


def test_doctor_names_the_cure_of_a_broken_venv(cluster: str, venv: object) -> None:
    lose_venv(cluster)
    try:
        result = CliRunner().invoke(app, ["doctor", "--dsn", cluster, "--json"])
        print(result.output)
        assert result.exit_code == 1
        wrong = [check for check in json.loads(result.output)["checks"] if not check["ok"]]
        assert wrong
        assert all("/nowhere/venv" in check["detail"] for check in wrong)
        assert all("pip install" in check["hint"] for check in wrong)
    finally:
        install(InstallOptions(venv=str(venv)), cluster)


def test_warm_answers_for_every_segment(session: Connection) -> None:
    segments = ask(session, "SELECT count(*) FROM gp_segment_configuration WHERE role = 'p' AND content >= 0")
    first = rows(session, "SELECT content, milliseconds FROM dbinfer.warm('constant')")
    again = rows(session, "SELECT content, milliseconds FROM dbinfer.warm('constant')")
    print(first, again)
    assert [row[0] for row in first] == list(range(segments))
    assert [row[0] for row in again] == list(range(segments))
    assert rows(session, "SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7") == [
        (60,)
    ]


def test_after_the_idle_timeout_things_go_on(cluster: str) -> None:
    connection = psycopg2.connect(cluster, options="-c gp_vmem_idle_resource_timeout=500")
    connection.autocommit = True
    if connection.server_version < 120000:
        connection.close()
        pytest.skip("Greenplum 6 keeps the processes of an idle session, also one without dbinfer")
    query = "SELECT count(*) FROM images WHERE (dbinfer.predict(img, 'constant'))[1] = 7"
    before = rows(connection, "SELECT content, pid FROM dbinfer.segments ORDER BY 1")
    assert rows(connection, query) == [(60,)]
    time.sleep(3)
    assert rows(connection, query) == [(60,)]
    after = rows(connection, "SELECT content, pid FROM dbinfer.segments ORDER BY 1")
    connection.close()
    assert before != after, "the segments' processes were not dropped: the test shows nothing"


@pytest.mark.parametrize("where", ["id = 17", "id >= 0"])
def test_a_bad_image_names_its_segment(session: Connection, where: str) -> None:
    rows(session, "DROP TABLE IF EXISTS bad")
    rows(
        session,
        "CREATE TABLE bad AS SELECT id, CASE WHEN id = 17 THEN '\\x1234'::bytea ELSE img END AS img FROM images "
        "DISTRIBUTED BY (id)",
    )
    segment = ask(session, "SELECT gp_segment_id FROM bad WHERE id = 17")
    query = f"SELECT id, dbinfer.predict(img, 'constant') FROM bad WHERE {where}"
    diag = refused(session, "22P03", query)
    print(diag.message_primary, "|", diag.message_detail)
    assert f"segment {segment}" in diag.message_detail
    good = f"SELECT count(*), count(dbinfer.predict(img, 'constant', 'null')) FROM bad WHERE {where}"
    rows_there, scored = rows(session, good)[0]
    assert rows_there - scored == 1


def test_images_are_safe_from_unprivileged_functions(session: Connection) -> None:
    assert ask(session, "SELECT has_schema_privilege('public', 'dbinfer_private', 'USAGE')") is False


def test_no_part_is_missing_where_all_are_there(session: Connection) -> None:
    query = "SELECT dbinfer_private.missing_parts(ARRAY(SELECT digest FROM dbinfer_private.part))"
    assert ask(session, query) == []
