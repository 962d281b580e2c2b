"""When a change of the registry counts: once per statement, in every kind of statement and transaction."""

from __future__ import annotations

from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, activate, deploy, drop

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
ONE = "SELECT (dbinfer.predict(img, 'm'))[1] FROM public.few"


@pytest.fixture(scope="module", autouse=True)
def folder(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    for number in (1, 2):
        deploy(tiny_models.constant(folder, number, "m"), dsn=dsn)
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    make_images(connection, "few", [IMAGE], copies=6)
    connection.close()
    return folder


@pytest.fixture(autouse=True)
def first(dsn: str, folder: Path) -> None:
    activate("m@1", dsn)


def numbers(db: Connection, query: str = ONE) -> list[float]:
    return [row[0] for row in rows(db, query)]


def test_an_open_session_follows_at_its_next_statement(db: Connection, dsn: str) -> None:
    assert numbers(db) == [1] * 6
    activate("m@2", dsn)
    assert numbers(db) == [2] * 6
    activate("m@1", dsn)
    assert numbers(db) == [1] * 6


def test_versions_by_number_and_alias_in_one_statement(db: Connection, dsn: str) -> None:
    rows(db, "SELECT dbinfer.set_alias('m', 'next', 2)")
    calls = " || ".join(f"dbinfer.predict(img, '{name}')" for name in ("m", "m@2", "m@next"))
    query = f"SELECT {calls} FROM public.few"
    assert ask(db, query) == [1, 1, 1, 2, 2, 2, 2, 2, 2]
    rows(db, "SELECT dbinfer.drop_alias('m', 'next')")
    refused(db, "42704", query)


@pytest.mark.parametrize("mode", ["force_generic_plan", "force_custom_plan", "auto"])
@pytest.mark.wide
def test_a_prepared_statement_follows(db: Connection, dsn: str, mode: str) -> None:
    rows(db, f"SET plan_cache_mode = {mode}")
    rows(db, f"PREPARE p AS {ONE}")
    for _ in range(7):
        assert numbers(db, "EXECUTE p") == [1] * 6
    activate("m@2", dsn)
    assert numbers(db, "EXECUTE p") == [2] * 6


def test_a_plpgsql_function_follows(db: Connection, dsn: str) -> None:
    rows(
        db,
        "CREATE OR REPLACE FUNCTION public.asks(b bytea) RETURNS real LANGUAGE plpgsql AS "
        "$$ DECLARE r real[]; BEGIN r := dbinfer.predict(b, 'm'); RETURN r[1]; END $$",
    )
    for version in (1, 2, 1):
        activate(f"m@{version}", dsn)
        assert numbers(db, "SELECT public.asks(img) FROM public.few") == [version] * 6


def test_a_cursor_stays_with_the_version_of_its_beginning(db: Connection, dsn: str) -> None:
    rows(db, "BEGIN")
    rows(db, f"DECLARE c CURSOR FOR {ONE}")
    assert numbers(db, "FETCH 3 FROM c") == [1] * 3
    activate("m@2", dsn)
    assert numbers(db) == [2] * 6
    assert numbers(db, "FETCH ALL FROM c") == [1] * 3
    rows(db, "COMMIT")


def test_a_repeatable_read_transaction_stays_with_its_snapshot(db: Connection, dsn: str) -> None:
    rows(db, "BEGIN ISOLATION LEVEL REPEATABLE READ")
    assert numbers(db) == [1] * 6
    activate("m@2", dsn)
    assert numbers(db) == [1] * 6
    rows(db, "COMMIT")
    assert numbers(db) == [2] * 6


def test_a_change_of_the_own_transaction_counts_at_once_and_rolls_back(db: Connection) -> None:
    rows(db, "BEGIN")
    assert numbers(db) == [1] * 6
    rows(db, "SELECT dbinfer.activate('m', 2)")
    assert numbers(db) == [2] * 6
    rows(db, "ROLLBACK")
    assert numbers(db) == [1] * 6


def test_statements_in_one_string_follow_the_change_between_them(db: Connection) -> None:
    rows(db, f"SELECT dbinfer.activate('m', 2); {ONE}")
    assert numbers(db, f"{ONE}; SELECT dbinfer.activate('m', 2); {ONE}") == [2] * 6


def test_a_savepoint_rolled_back_takes_the_change_with_it(db: Connection) -> None:
    rows(db, "BEGIN")
    rows(db, "SAVEPOINT s")
    rows(db, "SELECT dbinfer.activate('m', 2)")
    assert numbers(db) == [2] * 6
    rows(db, "ROLLBACK TO s")
    assert numbers(db) == [1] * 6
    rows(db, "COMMIT")


def test_a_rolled_back_change_within_a_statement_is_not_remembered(db: Connection) -> None:
    rows(db, (Path(__file__).parent / "procedures.sql").read_text())
    assert ask(db, "SELECT public.changes_and_regrets(%s)", IMAGE) == [1, 2, 1]


def test_a_procedure_that_commits_goes_on(db: Connection) -> None:
    rows(db, (Path(__file__).parent / "procedures.sql").read_text())
    rows(db, "DROP TABLE IF EXISTS public.log; CREATE TABLE public.log (n real)")
    rows(db, "CALL public.commits(%s)", IMAGE)
    assert numbers(db, "SELECT n FROM public.log ORDER BY n") == [1, 1, 1]


def test_a_dropped_version_is_named_at_the_next_statement(db: Connection, dsn: str, folder: Path) -> None:
    deploy(tiny_models.constant(folder, 3, "m"), DeployOptions(activate=False), dsn=dsn)
    assert ask(db, "SELECT dbinfer.predict(%s, 'm@3')", IMAGE) == [3, 3, 3]
    drop("m@3", dsn=dsn)
    diag = refused(db, "42704", "SELECT dbinfer.predict(%s, 'm@3')", IMAGE)
    assert diag.message_primary == 'model "m" has no version or alias "3"'
    assert diag.message_hint == "Versions: m@1, m@2."


@pytest.mark.wide
def test_a_model_that_is_dropped_while_a_cursor_reads_is_scored_to_the_end(
    db: Connection, dsn: str, folder: Path
) -> None:
    deploy(tiny_models.constant(folder, 5, "short"), dsn=dsn)
    rows(db, "BEGIN")
    rows(db, "DECLARE c CURSOR FOR SELECT (dbinfer.predict(img, 'short'))[1] FROM public.few")
    assert numbers(db, "FETCH 2 FROM c") == [5, 5]
    drop("short", force=True, dsn=dsn)
    assert numbers(db, "FETCH ALL FROM c") == [5] * 4
    rows(db, "COMMIT")
    refused(db, "42704", "SELECT dbinfer.predict(%s, 'short')", IMAGE)


@pytest.mark.wide
def test_the_same_graph_with_other_labels_is_another_model_in_the_same_session(
    db: Connection, dsn: str, tmp_path: Path
) -> None:
    query = "SELECT (dbinfer.classify(%s, 'named')).label"
    deploy(tiny_models.colour_classifier(tmp_path, "named"), dsn=dsn)
    assert ask(db, query, IMAGE) == "blue"
    deploy(
        tiny_models.colour_classifier(tmp_path, "named"),
        DeployOptions(values={"labels": ["rot", "grün", "blau"]}),
        dsn=dsn,
    )
    assert ask(db, query, IMAGE) == "blau"
    activate("named@1", dsn)
    assert ask(db, query, IMAGE) == "blue"


@pytest.mark.wide
def test_a_change_of_settings_counts_at_the_next_statement(db: Connection) -> None:
    query = "SELECT dbinfer.predict(%s, 'm')"
    assert ask(db, query, IMAGE) == [1, 1, 1]
    rows(db, "SELECT dbinfer_private.set_setting('max_image_pixels', '10')")
    refused(db, "54000", query, IMAGE)
    rows(db, "SELECT dbinfer_private.set_setting('max_image_pixels', '100000000')")
    assert ask(db, query, IMAGE) == [1, 1, 1]
