"""score --reuse: no picture is scored twice, across batches, connections and tables; what it takes, and from whom."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, role, rows
from following import until, watching
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from variants import wide

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.connection import session
from dbinfer.database.platform import detect
from dbinfer.models import DeployOptions, deploy
from dbinfer.score import FollowOptions, ScoreOptions, ScoreReport, follow, jobs, score
from dbinfer.score.tables import prepare

COUNTED = "SELECT coalesce(sum(rows), 0)::integer FROM dbinfer.usage"
PICTURES = 70  # of 100 rows


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    deploy(path := tiny_models.colour_classifier(folder), dsn=dsn)
    return path


def picture(number: int) -> bytes:
    return tiny_models.file(tiny_models.picture(number, 255 - number, 3))


@pytest.fixture(autouse=True)
def images(db: Connection) -> Iterator[None]:
    """A table of 100 images, of which 70 are different: rows 70 to 99 repeat those of 0, 2, 4 ..."""
    rows(db, "CREATE TABLE public.images (id integer PRIMARY KEY, img bytea)")
    for number in range(100):
        shown = number if number < PICTURES else 2 * (number - PICTURES)
        rows(db, "INSERT INTO images VALUES (%s, %s)", number, picture(shown))
    rows(db, "CREATE TABLE public.others AS SELECT 1000 + id AS id, img FROM images")
    rows(db, "GRANT SELECT ON images, others TO PUBLIC")
    rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
    yield
    rows(db, "SELECT dbinfer.set_setting('usage', 'off')")
    tables = "predictions, predictions_errors, second, second_errors, plain, plain_errors, predictions_queue"
    rows(db, f"DROP TABLE IF EXISTS images, others, {tables} CASCADE")


class scored:  # noqa: N801 - reads like a statement
    """A job with --reuse: its report, and how many images it had the model look at."""

    def __init__(
        self, db: Connection, dsn: str, table: str = "images", into: str = "predictions", **options: Any
    ) -> None:
        before = ask(db, COUNTED)
        self.report: ScoreReport = score(
            table, into, ScoreOptions(**({"reuse": True, "batch": 16} | options)), dsn
        )
        self.images = ask(db, COUNTED) - before


RESULTS = "SELECT id, class, label, float4send(score) FROM {} ORDER BY id"


def as_anew(db: Connection, dsn: str, table: str = "images", into: str = "predictions") -> None:
    """See that the results are bit by bit those of a job that scores each row."""
    rows(db, "DROP TABLE IF EXISTS plain, plain_errors")
    score(table, "plain", ScoreOptions(), dsn)
    assert rows(db, RESULTS.format(into)) == rows(db, RESULTS.format("plain"))


@pytest.mark.parametrize("connections", [3, *wide(1)])
def test_each_picture_is_scored_once(db: Connection, dsn: str, connections: int) -> None:
    first = scored(db, dsn, connections=connections)
    assert (first.images, first.report.rows, first.report.reused) == (PICTURES, 100, 30)
    assert jobs(1, dsn).jobs[0]["reused"] == 30
    # in another table all of them are known
    second = scored(db, dsn, "others", "second", connections=connections)
    assert (second.images, second.report.rows, second.report.reused) == (0, 100, 100)
    as_anew(db, dsn)
    as_anew(db, dsn, "others", "second")


@pytest.mark.wide
def test_rows_that_come_later_and_results_without_a_digest(db: Connection, dsn: str) -> None:
    score(options=ScoreOptions(where="id < 10"), dsn=dsn)
    # those ten do not say of which picture they are
    assert scored(db, dsn).images == PICTURES - 5
    rows(db, "INSERT INTO images SELECT 200 + id, img FROM images WHERE id >= 10")
    assert (again := scored(db, dsn)).images == 0
    assert again.report.reused == 90


def test_another_name_of_the_same_model_is_the_same(
    db: Connection, dsn: str, models: Path, tmp_path: Path
) -> None:
    scored(db, dsn)
    deploy(models, DeployOptions(name="again", alias="too"), dsn=dsn)
    deploy(models, DeployOptions(name="colours", alias="same"), dsn=dsn)
    for reference in ("again@too", "colours@same"):
        found = scored(db, dsn, "images", "second", model=reference)
        assert (found.images, found.report.rows, found.report.reused) == (0, 100, 100)
    # the same weights under other labels are another answer
    deploy(tiny_models.colour_classifier(tmp_path, "again", labels=["r", "g", "b"]), dsn=dsn)
    assert scored(db, dsn, "images", "second", model="again").images == PICTURES
    assert (
        ask(db, "SELECT count(*) FROM second WHERE model = 'again' AND version = 2 AND label IN ('r', 'g')")
        == 100
    )


@pytest.mark.wide
def test_another_threshold_is_another_answer(db: Connection, dsn: str, tmp_path: Path) -> None:
    for version, threshold in enumerate((0.5, 0.9), 1):
        deploy(tiny_models.red_mask(tmp_path, "strict", threshold=threshold), dsn=dsn)
        assert scored(db, dsn, "images", "second", model="strict").images == PICTURES
        anew = "version = %s AND mask = dbinfer.segment(img, %s)"
        assert (
            ask(
                db,
                f"SELECT count(*) FROM second JOIN images USING (id) WHERE {anew}",
                version,
                f"strict@{version}",
            )
            == 100
        )


@pytest.mark.wide
def test_bad_images_are_tried_each_time_and_no_image_has_no_answer(db: Connection, dsn: str) -> None:
    rows(
        db,
        "UPDATE images SET img = 'bad' WHERE id IN (1, 3, 99); UPDATE images SET img = NULL WHERE id IN (5, 7, 98)",
    )
    first = scored(db, dsn).report
    assert (first.rows, first.errors, first.nulls, first.reused) == (97, 3, 3, 28)
    assert rows(db, "SELECT id FROM predictions_errors ORDER BY id") == [(1,), (3,), (99,)]
    second = scored(db, dsn, "others", "second").report
    assert (second.rows, second.errors) == (100, 0)
    as_anew(db, dsn)
    rows(db, "UPDATE others SET img = 'bad' WHERE id IN (1001, 1003); DROP TABLE second, second_errors")
    # stored as no result, they answer for no other row
    third = scored(db, dsn, "others", "second", on_error="null").report
    assert (third.rows, third.errors, third.nulls) == (100, 0, 2)
    rows(db, "DROP TABLE second, second_errors; UPDATE others SET img = %s WHERE id = 1003", picture(3))
    assert scored(db, dsn, "others", "second", on_error="null").report.nulls == 1


@contextmanager
def somebody(db: Connection, dsn: str) -> Iterator[tuple[str, str, str]]:
    """Yield a new role, its dsn, and a schema of its own."""
    with role(db) as name:
        rows(
            db,
            f"RESET ROLE; CREATE SCHEMA of_{name} AUTHORIZATION {name}; GRANT USAGE ON SCHEMA of_{name} TO PUBLIC",
        )
        yield name, make_dsn(dsn, options=f"-c role={name}"), f"of_{name}"
        rows(db, f"DROP SCHEMA of_{name} CASCADE")


FORGED = """
CREATE TABLE {0} (id integer, model text, version integer, class integer, label text, score real, scored_at timestamptz,
                  image_mark text, image_digest bytea);
INSERT INTO {0} SELECT -id, 'colours', 1, 7, 'forged', 0, now(), '', sha256(img) FROM images;
CREATE INDEX ON {0} (image_digest);
GRANT SELECT ON {0} TO PUBLIC"""


def test_answers_of_others_count_where_they_may_be_read_and_are_named(db: Connection, dsn: str) -> None:
    with somebody(db, dsn) as (_, one, ones), somebody(db, dsn) as (other, another, others):
        given, into = f"{ones}.given", f"{others}.results"
        assert scored(db, one, "images", given).images == PICTURES
        # what may not be read, named or not, reveals nothing
        with pytest.raises(DataError, match="given is no table of results of classify"):
            scored(db, another, "images", into, reuse_from=given)
        assert scored(db, another, "images", into).images == PICTURES
        rows(db, f"DROP TABLE {into}; GRANT SELECT ON {given} TO {other}")
        # its owner could have written anything there: it counts once it is named
        assert scored(db, another, "images", into).images == PICTURES
        rows(db, f"DROP TABLE {into}")
        found = scored(db, another, "images", into, reuse_from=given)
        assert (found.images, found.report.reused) == (0, 100)
        rows(db, f"DROP TABLE {into}; ALTER TABLE {given} ENABLE ROW LEVEL SECURITY")
        # no policy lets it see a row
        assert scored(db, another, "images", into, reuse_from=given).images == PICTURES
        rows(db, f"DROP TABLE {into}; CREATE POLICY few ON {given} USING (id < 10)")
        assert scored(db, another, "images", into, reuse_from=given).images == PICTURES - 10
        # a forged table, and one with a policy whose code would run with the reader's rights
        rows(db, f"DROP TABLE {into}")
        with closing(psycopg2.connect(one)) as forger:
            rows(forger, FORGED.format(f"{ones}.forged"))
            forger.commit()
        for dsn_of, target in ((another, into), (dsn, "second")):
            scored(db, dsn_of, "images", target)
            assert ask(db, f"SELECT count(*) FROM {target} WHERE label = 'forged'") == 0
        # a superuser's results, which the role may read
        rows(db, f"DROP TABLE {into}; GRANT SELECT ON second TO {other}")
        assert scored(db, another, "images", into).images == 0


def test_a_right_that_is_taken_away_while_a_job_runs(db: Connection, dsn: str) -> None:
    """The tables are looked up once, and what may be read before each batch."""
    scored(db, dsn)
    with somebody(db, dsn) as (name, own, schema):
        rows(db, f"GRANT SELECT ON predictions TO {name}")
        with session(own) as conn, conn.cursor() as cur:
            plan = prepare(cur, "images", f"{schema}.results", ScoreOptions(reuse=True), detect(conn))
            assert plan.answers is not None
            assert [str(table) for table in plan.answers.held(cur)] == ["public.predictions"]
            conn.commit()
            rows(db, f"REVOKE SELECT ON predictions FROM {name}")
            assert plan.answers.held(cur) == []
            conn.commit()
            rows(db, f"GRANT SELECT ON predictions TO {name}; ALTER TABLE predictions RENAME TO kept")
            # under this name lies nothing now, and the table is read where it lies
            assert [str(table) for table in plan.answers.held(cur)] == ["public.kept"]
        rows(db, "DROP TABLE kept")


@pytest.mark.wide
@pytest.mark.parametrize(
    ("key", "columns"),
    [
        ("place,k", "id % 7 AS place, 'it''s % {' || id AS k"),
        ("k", "'no ' || id AS k"),
        ("k", "md5(id::text)::uuid AS k"),
    ],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_keys_of_several_columns_and_of_text(
    db: Connection, dsn: str, key: str, columns: str, indexed: bool
) -> None:
    rows(db, f"CREATE TABLE second AS SELECT {columns}, img FROM images WITH NO DATA")
    if detect(db).mpp:
        # with ORCA the rows would lie at random, where no key is possible; and Greenplum 7 fails to merge by uuid
        rows(db, f"ALTER TABLE second SET DISTRIBUTED BY ({key}); SET enable_mergejoin = off")
    if indexed:
        rows(db, f"ALTER TABLE second ADD PRIMARY KEY ({key})")
    # not before: Greenplum 7 also sorts uuids wrongly where it makes an index of rows that are there
    rows(db, f"INSERT INTO second SELECT {columns}, img FROM images")
    found = scored(db, dsn, "second", key=key, connections=2)
    assert (found.images, found.report.rows, found.report.reused) == (PICTURES, 100, 30)
    joined = f"SELECT count(*) FROM second s JOIN predictions p USING ({key})"
    assert ask(db, f"{joined} WHERE p.label = (dbinfer.classify(img)).label") == 100


@pytest.mark.wide
def test_a_view_whose_rows_do_not_say_who_wrote_them(db: Connection, dsn: str) -> None:
    rows(db, "CREATE VIEW shown AS SELECT id, img FROM images")
    found = scored(db, dsn, "shown")
    assert (found.images, found.report.rows, found.report.reused) == (PICTURES, 100, 30)
    rows(db, "DROP VIEW shown")


@pytest.mark.wide
@pytest.mark.postgres_only("Greenplum has no large objects")
def test_large_objects(db: Connection, dsn: str) -> None:
    rows(db, "CREATE TABLE second AS SELECT id, lo_from_bytea(0, img) AS img FROM images")
    assert scored(db, dsn, "second").images == PICTURES
    rows(db, "SELECT lo_unlink(img) FROM second")


@pytest.mark.wide
def test_a_job_that_follows(db: Connection, dsn: str) -> None:
    """The digests are the same, so what a job has kept that followed counts."""
    score(options=ScoreOptions(follow=True), dsn=dsn)
    rows(db, "UPDATE images SET img = %s WHERE id < 3", picture(9))
    # the results have no index yet: this job makes it, and finds picture 9 in them
    again = scored(db, dsn, follow=True)
    assert (again.images, again.report.rows, again.report.outdated, again.report.reused) == (0, 3, 3, 3)
    as_anew(db, dsn)


@pytest.mark.wide
@pytest.mark.postgres_only("a queue needs triggers")
def test_a_job_that_follows_by_a_queue(db: Connection, dsn: str) -> None:
    follow(options=FollowOptions(), dsn=dsn)
    assert scored(db, dsn, follow=True).images == PICTURES
    rows(db, "UPDATE images SET img = %s WHERE id < 40", picture(80))
    again = scored(db, dsn, follow=True, connections=3)
    assert again.report.rows == 40
    assert again.images <= 3  # what is to be removed makes no row wait for another
    as_anew(db, dsn)


@pytest.mark.wide
def test_a_job_that_watches(db: Connection, dsn: str) -> None:
    with watching(dsn, follow=False, reuse=True, connections=2) as job:
        until(lambda: ask(db, "SELECT to_regclass('predictions_errors')"))
        until(lambda: ask(db, "SELECT count(*) FROM predictions") == 100)
        rows(db, "INSERT INTO images SELECT 100 + id, img FROM images")
        until(lambda: ask(db, "SELECT count(*) FROM predictions") == 200)
    assert job.ended[0].reused == 130


@pytest.mark.wide
def test_pictures_that_change_while_a_job_runs(db: Connection, dsn: str) -> None:
    """No result may be kept as the answer of a picture that it does not belong to."""
    stop = threading.Event()

    def write() -> None:
        with closing(psycopg2.connect(dsn)) as other:
            other.autocommit = True
            turn = 0
            while not stop.is_set():
                turn += 1
                rows(other, "UPDATE images SET img = %s WHERE id %% 5 = %s", picture(turn % 250), turn % 5)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        # a cluster updates every row of the table again and again while it scores a batch, and takes a minute a job
        for follows in (False, True) if detect(db).mpp else (False,) * 5 + (True,) * 5:
            scored(db, dsn, "images", "second", connections=3, follow=follows)
    finally:
        stop.set()
        thread.join()
    during = rows(db, "SELECT image_digest, score FROM second")
    # a row that changed between its digest and its score has no result yet
    scored(db, dsn, "images", "second", follow=True)
    after = rows(db, "SELECT image_digest, score FROM second")
    assert during
    assert len(after) == 100
    digests = {ask(db, "SELECT sha256(%s)", picture(number)): number for number in range(250)}
    for digest, best in (*during, *after):
        number = digests[digest]
        assert best == max(number, 255 - number)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"function": "classify_top"}, UsageError, "does not know results of classify_top"),
        *wide(
            ({"function": "classify_all"}, UsageError, "does not know results of classify_all"),
            ({"function": "image_info"}, UsageError, "does not know results of image_info"),
            ({"atomic": True}, UsageError, "reuse does not go with one transaction"),
            ({"append": True}, UsageError, "append and reuse"),
            ({"reuse": False, "reuse_from": "x"}, UsageError, "reuse_from needs reuse"),
            ({"reuse_from": "nowhere"}, DataError, "nowhere is no table of results"),
            ({"reuse_from": "images"}, DataError, "images is no table of results"),
        ),
    ],
)
def test_what_is_wrong_is_one_sentence(
    dsn: str, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        score(options=ScoreOptions(**({"reuse": True} | options)), dsn=dsn)


@pytest.mark.wide
def test_references_and_a_role_without_temporary_tables(db: Connection, dsn: str) -> None:
    rows(db, "CREATE TABLE second AS SELECT id, 'x' || id AS img FROM images")
    with pytest.raises(DataError, match="column 'img' has references"):
        scored(db, dsn, "second")
    name = ask(db, "SELECT current_database()")
    rows(db, f"REVOKE TEMPORARY ON DATABASE {name} FROM PUBLIC")
    with somebody(db, dsn) as (_, own, schema), pytest.raises(DataError, match="needs a temporary table"):
        scored(db, own, "images", f"{schema}.results")
    rows(db, f"GRANT TEMPORARY ON DATABASE {name} TO PUBLIC")
