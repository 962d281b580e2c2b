"""A database of 0.1.0 in use: models, names and rights outlive the upgrade, and open sessions go on."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from catalog import another_database, snapshot
from psycopg2.extensions import connection as Connection
from released_version import Release

from dbinfer.base.errors import DataError, InstallError
from dbinfer.database.platform import detect
from dbinfer.install import InstallOptions, install, upgrade
from dbinfer.models import deploy
from dbinfer.report import ReportOptions, report
from dbinfer.score import ScoreOptions, Scoring, score

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
WRAPPER = (
    "CREATE FUNCTION public.asks(b bytea) RETURNS real LANGUAGE plpgsql AS "
    "$$ BEGIN RETURN (dbinfer.predict(b))[1]; END $$"
)
# What `dbinfer score --model m` of 0.1.0 ran
SCORE = (
    "CREATE TABLE public.predictions AS SELECT id, result AS prediction FROM (SELECT id, "
    "dbinfer.predict(img, '{}', 'error') AS result FROM public.images source WHERE (true) AND true OFFSET 0) scored"
)


def answers(session: Connection, query: str, *names: str) -> list[list[float]]:
    return [ask(session, query, IMAGE, name) for name in names]


@pytest.fixture
def old(server_dsn: str, venv: Path) -> Iterator[str]:
    """A database of 0.1.0 with models m@1, m@2 = m, secret; a table, a view and a function of users."""
    with another_database(server_dsn, "test_released") as dsn:
        release = Release("0.1.0")
        release.install(dsn, {"venv": str(venv), "threads": "1"})
        release.deploy(dsn)
        with closing(psycopg2.connect(dsn)) as connection, connection:
            rows(connection, "CREATE TABLE public.images (id integer, img bytea)")
            rows(connection, "INSERT INTO public.images SELECT n, %s FROM generate_series(1, 5) n", IMAGE)
            rows(
                connection,
                "CREATE VIEW public.scored AS SELECT id, dbinfer.predict(img) AS p FROM public.images",
            )
            tensor = "dbinfer.predict_tensor(img, 'm', on_error => 'null')"
            rows(connection, f"CREATE VIEW public.tensors AS SELECT {tensor} AS t FROM public.images")
            rows(connection, WRAPPER)
        yield dsn


@pytest.fixture
def scores(old: str, venv: Path) -> str:
    """That database, where 0.1.0 can score."""
    if (venv / "lib" / "python3.9").exists():
        pytest.skip("0.1.0 scores with an OpenVINO that there is not for Python 3.9")
    return old


def score_everything(session: Connection) -> None:
    predict = "SELECT dbinfer.predict(%s, %s)"
    assert answers(session, predict, "m", "m@1", "m@first") == [[2] * 3, [1] * 3, [1] * 3]
    assert ask(session, "EXECUTE p(%s)", IMAGE) == [2, 2, 2]
    assert ask(session, "SELECT sum(p[1]) FROM public.scored") == 10
    assert ask(session, "SELECT max(octet_length(t)) FROM public.tensors") == 12
    assert ask(session, "SELECT public.asks(%s)", IMAGE) == 2
    assert ask(session, "SELECT format FROM dbinfer.image_info(%s)", IMAGE) == "PNG"


def test_open_sessions_go_on_with_right_results(scores: str) -> None:
    with closing(psycopg2.connect(scores)) as one, closing(psycopg2.connect(scores)) as idle:
        for session in (one, idle):
            session.autocommit = True
            rows(session, "PREPARE p AS SELECT dbinfer.predict($1)")
            score_everything(session)
        assert upgrade(dsn=scores).changed
        score_everything(one)
        rows(one, "SELECT dbinfer.activate('m', 1)")
        assert ask(idle, "EXECUTE p(%s)", IMAGE) == [1, 1, 1]
        rows(one, "SELECT dbinfer.activate('m', 2)")
        score_everything(idle)


@pytest.mark.wide
def test_an_open_transaction_is_not_waited_for_without_end(
    scores: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys.modules["dbinfer.install"], "LOCK_WAIT", "200ms")
    with closing(psycopg2.connect(scores)) as session:
        assert ask(session, "SELECT dbinfer.predict(%s)", IMAGE) == [2, 2, 2]
        with pytest.raises(InstallError, match="nothing changed") as caught:
            upgrade(dsn=scores)
        assert "pg_stat_activity" in caught.value.hint
        assert ask(session, "SELECT dbinfer.predict(%s)", IMAGE) == [2, 2, 2]
        session.commit()
        assert upgrade(dsn=scores).changed
        assert ask(session, "SELECT dbinfer.predict(%s)", IMAGE) == [2, 2, 2]


def test_a_running_job_ends_with_the_version_it_began_with(scores: str) -> None:
    """The upgrade waits for it. One that has planned and not scored its first row yet ends with an error instead."""
    job = SCORE.format("m").replace("WHERE (true)", "WHERE (id = 1 OR pg_sleep(0.4) IS NOT NULL)")
    locks = (
        "SELECT relation::regclass::text FROM pg_locks JOIN pg_stat_activity a USING (pid) "
        "WHERE a.query LIKE 'CREATE TABLE public.%'"
    )
    with closing(psycopg2.connect(scores)) as session, closing(psycopg2.connect(scores)) as watch:
        session.autocommit = watch.autocommit = True
        with ThreadPoolExecutor(1) as pool:
            running = pool.submit(rows, session, job)
            while ("dbinfer_private.model",) not in rows(watch, locks) and not running.done():
                pass
            assert upgrade(dsn=scores).changed
            assert running.done()
            running.result()
        scored_rows = rows(watch, "SELECT id, prediction FROM public.predictions ORDER BY id")
        assert scored_rows == [(number, [2, 2, 2]) for number in range(1, 6)]
        assert score(options=ScoreOptions(model="m@2"), dsn=scores).rows == 0


def test_models_names_and_rights_are_as_before(old: str) -> None:
    registry = "SELECT name, version, is_default, versions, aliases, granted_to, size, created_at FROM dbinfer.models"
    versions = (
        "SELECT name, version, active, aliases, digest, manifest, created_by FROM dbinfer.model_versions"
    )
    with closing(psycopg2.connect(old)) as session:
        session.autocommit = True
        before = [sorted(map(str, rows(session, query))) for query in (registry, versions)]
        assert upgrade(dsn=old).changed
        assert [sorted(map(str, rows(session, query))) for query in (registry, versions)] == before
        with role(session):
            assert ask(session, "SELECT dbinfer.predict(%s)", IMAGE) == [2, 2, 2]
            refused(session, "42501", "SELECT dbinfer.predict(%s, 'secret')", IMAGE)
        assert ask(session, "SELECT dbinfer.predict(%s, 'secret')", IMAGE) == [5, 5, 5]
        assert upgrade(dsn=old).changed is False


@pytest.mark.wide
def test_what_was_made_with_the_old_functions_outlives_several_upgrades(scores: str) -> None:
    """Views of 0.1.0 keep their predict, under another name; new calls, by position and by name, get the new one."""
    assert upgrade(dsn=scores).changed
    with closing(psycopg2.connect(scores)) as session:
        session.autocommit = True
        shown = ask(session, "SELECT pg_get_viewdef('public.scored')")
        assert "_predict(" in shown
        rows(session, "SELECT dbinfer_private.set_setting('sql_digest', 'another')")
        assert upgrade(dsn=scores).changed
        assert ask(session, "SELECT sum(p[1]) FROM public.scored") == 10
        assert ask(session, "SELECT dbinfer.predict(%s, 'm', 'error')", IMAGE) == [2, 2, 2]
        refused(session, "22023", "SELECT dbinfer.predict(%s, 'm', output => 'x')", IMAGE)
        rows(session, "DROP VIEW public.scored, public.tensors")


@pytest.mark.wide
def test_it_goes_on_from_there(old: str, tmp_path: Path) -> None:
    upgrade(dsn=old)
    assert deploy(tiny_models.constant(tmp_path, 3, "m"), dsn=old).version == 3
    with closing(psycopg2.connect(old)) as session:
        assert answers(session, "SELECT dbinfer.predict(%s, %s)", "m", "m@2") == [[3] * 3, [2] * 3]


def test_an_upgraded_database_equals_a_fresh_one(server_dsn: str, venv: Path) -> None:
    with another_database(server_dsn, "test_old") as old, another_database(server_dsn, "test_new") as new:
        Release("0.1.0").install(old, {"venv": str(venv)})
        upgrade(dsn=old)
        install(InstallOptions(venv=str(venv)), new)
        assert snapshot(old) == snapshot(new)
        assert _settings(old) == _settings(new)


def _settings(dsn: str) -> dict[str, str]:
    with closing(psycopg2.connect(dsn)) as connection:
        return dict(rows(connection, "SELECT name, value FROM dbinfer_private.setting"))


def scored(dsn: str, model: str) -> None:
    """Let 0.1.0 score all images, upgrade, and add an image."""
    with closing(psycopg2.connect(dsn)) as session, session:
        rows(session, SCORE.format(model))
    upgrade(dsn=dsn)
    with closing(psycopg2.connect(dsn)) as session, session:
        rows(session, "INSERT INTO public.images VALUES (6, %s)", IMAGE)


@pytest.mark.wide
def test_score_goes_on_with_a_table_that_0_1_0_made(scores: str, tmp_path: Path) -> None:
    scored(scores, "m")
    with closing(psycopg2.connect(scores)) as session:
        session.autocommit = True
        before = rows(session, "SELECT * FROM public.predictions ORDER BY 1")
        with pytest.raises(DataError, match=r"does not say which version of m \(1, 2\) has made") as caught:
            score(options=ScoreOptions(model="m"), dsn=scores)
        assert "--model m@2" in caught.value.hint
        assert rows(session, "SELECT * FROM public.predictions ORDER BY 1") == before
        told: list[str] = []
        done = score(options=ScoreOptions(model="m@2"), dsn=scores, progress=lambda p: told.append(p.note))
        assert (done.rows, done.version, done.state) == (1, 2, "done")
        assert "public.predictions: what 0.1.0 or --atomic left there counts as m@2" in told
        assert (
            rows(session, "SELECT id, prediction FROM public.predictions WHERE id < 6 ORDER BY 1") == before
        )
        assert ask(session, "SELECT count(*) FROM public.predictions WHERE version = 2 AND model = 'm'") == 6
        page = report("images", "predictions", ReportOptions(out=tmp_path / "page.html"), scores)
        assert (page.model, page.rows) == ("m@2", 6)
        assert score(options=ScoreOptions(model="m"), dsn=scores).rows == 0
        rows(session, "SELECT dbinfer.activate('m', 1)")
        assert score(options=ScoreOptions(model="m"), dsn=scores).rows == 6
        assert ask(session, "SELECT count(*) FROM public.predictions") == 12


@pytest.mark.wide
def test_of_a_model_with_one_version_nothing_is_asked(scores: str) -> None:
    scored(scores, "secret")
    job = Scoring(options=ScoreOptions(model="secret"), dsn=scores)
    assert len(job) == 1
    assert [progress.done for progress in job] == [1]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("ALTER TABLE public.predictions ADD PRIMARY KEY (id)", "has a unique index on id alone"),
        ("ALTER TABLE public.predictions ADD COLUMN mine text", "no job has made it"),
        ("INSERT INTO public.predictions VALUES (1, NULL)", "could not create unique index"),
    ],
)
def test_a_table_that_cannot_be_taken_over_stays_as_it_is(scores: str, change: str, words: str) -> None:
    scored(scores, "secret")
    with closing(psycopg2.connect(scores)) as session:
        session.autocommit = True
        if detect(session).mpp:
            # with ORCA the rows lie at random, where no key is possible
            rows(session, "ALTER TABLE public.predictions SET DISTRIBUTED BY (id)")
        rows(session, change)
        before = rows(session, "SELECT * FROM public.predictions ORDER BY 1")
        with pytest.raises(DataError, match=words):
            score(options=ScoreOptions(model="secret"), dsn=scores)
        assert rows(session, "SELECT * FROM public.predictions ORDER BY 1") == before
