"""Models follow the database: through pg_dump into a fresh cluster, to a hot standby, and through a pooler."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import copies
import figures
import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from breakable import IMAGE, PREDICT, Breakable, until
from common_folders import common_folder
from copies import program, run
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from servers import backend_venv

import dbinfer
from dbinfer import server as embedded
from dbinfer.base.errors import DataError, DbinferError
from dbinfer.images.load import LoadOptions
from dbinfer.models import DeployOptions, deploy
from dbinfer.score import ScoreOptions, score

pytestmark = [pytest.mark.wide, pytest.mark.postgres_only("copies a server that is its own")]
ROLES = "CREATE ROLE alice; CREATE ROLE bob; GRANT USAGE ON SCHEMA public TO alice, bob"


@pytest.fixture(scope="module")
def source(own_server: embedded.ServerReport, tmp_path_factory: pytest.TempPathFactory) -> Breakable:
    """A server with a public model of two versions, a private one for alice, and its cache by default."""
    assert own_server.dsn is not None
    folder = tmp_path_factory.mktemp("irs")
    database = Breakable(own_server, own_server.dsn, Path(own_server.data_dir) / "dbinfer_cache")
    for number in (6, 7):
        deploy(tiny_models.constant(folder, number, "open"), dsn=own_server.dsn)
    deploy(tiny_models.constant(folder, 9, "secret"), DeployOptions(private=True), own_server.dsn)
    with database.session() as db:
        rows(db, ROLES)
        rows(db, "SELECT dbinfer.grant_model('secret', 'alice')")
        rows(db, "SELECT dbinfer.set_alias('open', 'old', 1)")
        make_images(db, "images", [IMAGE], 10)
        assert ask(db, PREDICT, IMAGE, "open") == [7, 7, 7]
        make_images(db, "scanned", [IMAGE, b"no image"], 10)
        score("scanned", "found", ScoreOptions(model="open"), own_server.dsn)
        # one that a client left at work
        rows(db, "UPDATE dbinfer_private.job SET state = 'running', ended_at = NULL")
    return database


def all_is_there(db: Connection) -> None:
    """See that models, versions, aliases and grants mean what they meant in the source."""
    assert ask(db, PREDICT, IMAGE, "open") == [7, 7, 7]
    assert ask(db, PREDICT, IMAGE, "open@old") == [6, 6, 6]
    rows(db, "SET ROLE alice")
    assert ask(db, PREDICT, IMAGE, "secret") == [9, 9, 9]
    rows(db, "SET ROLE bob")
    refused(db, "42501", PREDICT, IMAGE, "secret")
    assert ask(db, PREDICT, IMAGE, "open") == [7, 7, 7]
    rows(db, "RESET ROLE")


@pytest.fixture
def other_server(session_env: pytest.MonkeyPatch) -> Iterator[embedded.ServerReport]:
    """A cluster that has never heard of dbinfer: no database of ours, no roles."""
    with common_folder("trust") as folder:
        try:
            server = embedded.up(folder, embedded.UpOptions(backend_venv()))
            assert server.dsn is not None
            dbinfer.uninstall(dsn=server.dsn)
            with closing(psycopg2.connect(server.dsn)) as db:
                db.autocommit = True
                assert ask(db, "SELECT count(*) FROM pg_roles WHERE rolname LIKE 'dbinfer\\_%%'") == 0
            yield server
        finally:
            embedded.down(folder)


@pytest.mark.parametrize("kind", ["plain", "custom"])
def test_a_dump_restored_into_a_fresh_cluster_scores_after_upgrade(
    source: Breakable, other_server: embedded.ServerReport, tmp_path: Path, kind: str
) -> None:
    dump = tmp_path / "dump"
    run(program(source.server, "pg_dump"), f"--format={kind}", "-f", dump, "-d", source.dsn)
    target = make_dsn(other_server.dsn, dbname="restored")
    with closing(psycopg2.connect(other_server.dsn or "")) as db:
        db.autocommit = True
        rows(db, "CREATE DATABASE restored")
        rows(db, "CREATE ROLE alice")
        rows(db, "CREATE ROLE bob")
    if kind == "plain":
        run(program(source.server, "psql"), "-X", "-q", "-f", dump, "-d", target)
    else:  # it says that there is no role dbinfer_admin, and goes on
        copies.attempt(program(source.server, "pg_restore"), "-d", target, dump)
    assert dbinfer.upgrade(dsn=target).changed
    assert [check for check in dbinfer.doctor(target).checks if not check.ok] == []
    with closing(psycopg2.connect(target)) as db:
        db.autocommit = True
        all_is_there(db)
        assert ask(db, "SELECT count(dbinfer.predict(img, 'open')) FROM images") == 10
        copies.the_job_goes_on(db, target)
    deploy(tiny_models.constant(tmp_path, 8, "open"), dsn=target)
    with closing(psycopg2.connect(target)) as db:
        assert ask(db, PREDICT, IMAGE, "open") == [8, 8, 8]
    figures.record(f"pg_dump, {kind}", rows=14)


def test_a_dump_restored_by_another_role_runs_nothing_and_says_so(source: Breakable, tmp_path: Path) -> None:
    """A role without PL/Python gets tables and SQL; its own SECURITY DEFINER functions reach nothing of the server."""
    dump = tmp_path / "dump"
    run(program(source.server, "pg_dump"), "--format=custom", "-f", dump, "-d", source.dsn)
    with source.session() as db:
        rows(db, "CREATE ROLE mallory")
        rows(db, "CREATE DATABASE stolen OWNER mallory")
    target = make_dsn(source.dsn, dbname="stolen")
    copies.attempt(
        program(source.server, "pg_restore"), "--no-owner", "--no-acl", "--role=mallory", "-d", target, dump
    )
    with closing(psycopg2.connect(target)) as db:
        db.autocommit = True
        trusted = (
            "SELECT count(*) FROM pg_proc p JOIN pg_language l ON l.oid = p.prolang "
            "WHERE NOT l.lanpltrusted AND l.lanname LIKE 'plpython%%' AND p.proowner = 'mallory'::regrole"
        )
        assert ask(db, trusted) == 0
        rows(db, "SET ROLE mallory")
        with pytest.raises(psycopg2.Error) as caught:
            ask(db, PREDICT, IMAGE, "open")
        assert caught.value.pgcode not in (None, "XX000", "38000")
    found = [check for check in dbinfer.doctor(target).checks if not check.ok]
    assert found
    with pytest.raises(DbinferError) as stopped:
        dbinfer.upgrade(dsn=target)
    assert "\n" not in stopped.value.message


def test_a_hot_standby_scores_writes_nothing_but_its_own_cache_and_follows(
    source: Breakable, tmp_path: Path
) -> None:
    with copies.standby(source.server, source.server.home / "standby") as dsn:
        with closing(psycopg2.connect(dsn)) as db:
            db.autocommit = True
            assert ask(db, "SELECT pg_is_in_recovery()") is True
            all_is_there(db)
            assert ask(db, "SELECT count(dbinfer.predict(img, 'open')) FROM images") == 10
            cache = Path(ask(db, "SELECT cache_dir FROM dbinfer.segments"))
            assert cache.is_relative_to(source.server.home / "standby")
            shutil.rmtree(cache)
        with closing(psycopg2.connect(dsn)) as db:
            db.autocommit = True
            assert ask(db, PREDICT, IMAGE, "open") == [7, 7, 7]
            assert list(cache.rglob("model.xml"))
            deploy(tiny_models.constant(tmp_path, 5, "late"), dsn=source.dsn)
            until(lambda: ask(db, "SELECT count(*) FROM dbinfer.models WHERE name = 'late'"), "it follows")
            assert ask(db, PREDICT, IMAGE, "late") == [5, 5, 5]
            diag = refused(db, "25006", "SELECT dbinfer.activate('open', 1)")
            assert "during recovery" in str(diag.message_primary)
            with closing(psycopg2.connect(source.dsn)) as primary, primary:
                rows(primary, "SELECT dbinfer.set_setting('usage', 'on')")
            until(lambda: ask(db, "SELECT dbinfer._usage_since()") is not None, "it follows")
            assert ask(db, PREDICT, IMAGE, "late") == [5, 5, 5]
            assert ask(db, "SELECT rows FROM dbinfer.usage WHERE model = 'late'") == 1
        follower = Breakable(source.server, dsn, source.cache)
        follower.run("doctor")
        assert "public.scanned > public.found" in follower.run("jobs")
        follower.run(
            "report", "--table", "scanned", "--predictions", "found", "--out", tmp_path / "page.html"
        )
        with pytest.raises(DataError, match="the server takes no changes: it is a standby"):
            score("scanned", "found", ScoreOptions(model="open"), dsn)
        assert "late" in follower.run("models")
        assert "late@1" in follower.run("usage")
        with pytest.raises(DataError, match="takes no changes: it is a standby"):
            dbinfer.score("images", "answers", dsn=dsn)
        (tmp_path / "a.png").write_bytes(IMAGE)
        follower.run("predict", tmp_path / "a.png", "--model", "open")
    figures.record("hot standby", rows=30)


def followed(source: Breakable, db: Connection) -> None:
    """Wait until the standby has replayed all that the source has written."""
    with source.session() as primary:
        written = ask(primary, "SELECT pg_current_wal_lsn()::text")
    until(lambda: ask(db, "SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", written), "it follows")


def test_a_standby_believes_a_grant_no_longer_than_its_lag_and_refuses_all_changes_in_a_sentence(
    source: Breakable, tmp_path: Path
) -> None:
    (tmp_path / "a.png").write_bytes(IMAGE)
    with copies.standby(source.server, source.server.home / "second") as dsn:
        with closing(psycopg2.connect(dsn)) as db, source.session() as primary:
            db.autocommit = True
            rows(db, "SET ROLE alice")
            assert ask(db, PREDICT, IMAGE, "secret") == [9, 9, 9]
            rows(db, "RESET ROLE")
            # what the source says meanwhile is not here yet, and is here with the next statement after it has come
            rows(db, "SELECT pg_wal_replay_pause()")
            until(lambda: ask(db, "SELECT pg_get_wal_replay_pause_state()") == "paused", "it rests")
            rows(primary, "SELECT dbinfer.revoke_model('secret', 'alice')")
            rows(primary, "SELECT dbinfer.grant_model('secret', 'bob')")
            rows(primary, "SELECT dbinfer.activate('open', 1)")
            rows(db, "SET ROLE alice")
            assert ask(db, PREDICT, IMAGE, "secret") == [9, 9, 9]
            rows(db, "RESET ROLE")
            rows(db, "SELECT pg_wal_replay_resume()")
            followed(source, db)
            rows(db, "SET ROLE alice")
            refused(db, "42501", PREDICT, IMAGE, "secret")
            rows(db, "SET ROLE bob")
            assert ask(db, PREDICT, IMAGE, "secret") == [9, 9, 9]
            assert ask(db, PREDICT, IMAGE, "open") == [6, 6, 6]
            rows(db, "RESET ROLE")
            # an engine of the standby's host scores there, too, under the rights of now
            for call in (
                "SELECT dbinfer.grant_model('secret', 'alice')",
                "SELECT dbinfer.revoke_model('secret', 'bob')",
                "SELECT dbinfer.drop_model('open', force => true)",
                "SELECT dbinfer.set_isolation('open', 'always')",
                "SELECT dbinfer.set_setting('usage', 'off')",
            ):
                refused(db, "25006", call)
            rows(primary, "SELECT dbinfer.revoke_model('secret', 'bob')")
            rows(primary, "SELECT dbinfer.grant_model('secret', 'alice')")
            rows(primary, "SELECT dbinfer.activate('open', 2)")
        for act in (
            lambda: deploy(tiny_models.constant(tmp_path, 3, "never"), dsn=dsn),
            lambda: dbinfer.load(tmp_path / "a.png", LoadOptions("pictures"), dsn),
            lambda: dbinfer.uninstall(dsn=dsn),
        ):
            with pytest.raises(
                DbinferError, match=r"^cannot execute .* (recovery|transaction)\n.*on the primary"
            ):
                act()
        follower = Breakable(source.server, dsn, source.cache)
        assert "secret" in follower.run("models")
    figures.record("hot standby, grants", rows=6)


needs_pgbouncer = pytest.mark.skipif(
    shutil.which("pgbouncer", path=copies.SBIN) is None,
    reason="pgbouncer is not installed (apt install pgbouncer)",
)


@needs_pgbouncer
def test_through_a_pooler_each_transaction_sees_its_own_user_and_its_own_version(source: Breakable) -> None:
    """One server connection serves two clients in turns, transaction by transaction."""
    with (
        copies.pooler(source.server, source.server.home / "pooler", 1) as dsn,
        closing(psycopg2.connect(dsn)) as first,
        closing(psycopg2.connect(dsn)) as second,
    ):
        for _ in range(5):
            rows(first, "SET LOCAL ROLE alice")
            assert ask(first, PREDICT, IMAGE, "secret") == [9, 9, 9]
            first.commit()
            rows(second, "SET LOCAL ROLE bob")
            with pytest.raises(psycopg2.errors.InsufficientPrivilege):
                ask(second, PREDICT, IMAGE, "secret")
            second.rollback()
            rows(first, "SELECT dbinfer.activate('open', 1)")
            assert ask(first, PREDICT, IMAGE, "open") == [6, 6, 6]
            first.rollback()
            assert ask(second, PREDICT, IMAGE, "open") == [7, 7, 7]
            second.commit()
    figures.record("pgbouncer", rows=20)


@needs_pgbouncer
def test_every_command_works_through_a_pooler(source: Breakable, tmp_path: Path) -> None:
    (tmp_path / "images").mkdir()
    for number in range(3):
        (tmp_path / "images" / f"{number}.png").write_bytes(IMAGE)
    with copies.pooler(source.server, source.server.home / "pooler2", 2) as dsn:
        pooled = Breakable(source.server, dsn, source.cache)
        pooled.run("deploy", tiny_models.constant(tmp_path, 4, "pooled"))
        assert "pooled" in pooled.run("models")
        pooled.run("load", tmp_path / "images", "--table", "pooled_images")
        pooled.run(
            "score", "--table", "pooled_images", "--predictions", "pooled_results", "--model", "pooled"
        )
        pooled.run("predict", tmp_path / "images" / "0.png", "--model", "pooled")
        pooled.run("doctor")
        pooled.run("drop", "pooled", "--force")
