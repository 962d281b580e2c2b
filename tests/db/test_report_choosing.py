"""next: which rows of a scored table are chosen to be labelled."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn
from typer.testing import CliRunner

import dbinfer
from dbinfer.base.errors import DataError, UsageError
from dbinfer.cli.app import app

# Key: red (of 255; below and above 127 are two classes, near it the model is unsure), green, blue
PICTURES = {
    1: (130, 255, 0),
    2: (131, 255, 0),
    3: (132, 0, 255),
    4: (140, 0, 255),
    5: (120, 255, 0),
    6: (110, 0, 255),
    7: (10, 0, 255),
    8: (250, 255, 0),
    9: (128, 255, 0),
}


@pytest.fixture(scope="module")
def db(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """Pictures, of which the last has a label, with what a model says of them, and their colours as embeddings."""
    folder = tmp_path_factory.mktemp("next")
    dbinfer.deploy(tiny_models.probability(folder, "reds", labels=["no", "yes"]), dsn=dsn)
    dbinfer.deploy(tiny_models.colour_embedding(folder, "vector"), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "CREATE TABLE public.scans (id int PRIMARY KEY, img bytea, label text)")
        for key, colour in PICTURES.items():
            img = tiny_models.file(tiny_models.picture(*colour))
            rows(
                connection,
                "INSERT INTO public.scans VALUES (%s, %s, %s)",
                key,
                img,
                "yes" if key == 9 else None,
            )
        dbinfer.score("public.scans", "public.answers", dbinfer.ScoreOptions(model="reds"), dsn)
        dbinfer.score("public.scans", "public.vectors", dbinfer.ScoreOptions(model="vector"), dsn)
        yield connection


def chosen(db: Connection, dsn: str, **values: Any) -> list[int]:
    dbinfer.next("public.scans", "public.answers", dbinfer.NextOptions(**values), dsn)
    return [key for (key,) in rows(db, "SELECT id FROM public.scans_next ORDER BY rank")]


def test_the_least_certain_rows(db: Connection, dsn: str) -> None:
    """Those of lower scores first; what has a label is not asked for again."""
    command = [
        "next",
        "--table",
        "public.scans",
        "--predictions",
        "public.answers",
        "--count",
        "3",
        "--dsn",
        dsn,
    ]
    done = CliRunner().invoke(app, command)
    assert done.output == "public.scans_next: 3 of 8 candidates (reds@1)\n"
    expected = rows(
        db,
        "SELECT s.id, (row_number() OVER (ORDER BY (c).score))::int, (c).label, (c).score FROM "
        "(SELECT id, dbinfer.classify(img, 'reds') AS c FROM public.scans WHERE label IS NULL OFFSET 0) s "
        "ORDER BY (c).score LIMIT 3",
    )
    assert rows(db, "SELECT id, rank, proposal, score FROM public.scans_next ORDER BY rank") == expected
    assert [row[0] for row in expected] == [1, 2, 3]
    # The next time the rows that were labelled meanwhile are left out
    rows(db, "UPDATE public.scans SET label = 'yes' WHERE id = 2")
    assert chosen(db, dsn, count=2) == [1, 3]
    rows(db, "UPDATE public.scans SET label = NULL WHERE id = 2")


def test_rows_that_differ(db: Connection, dsn: str) -> None:
    """9 is green and has a label; 3 is unsure and blue, 6 and 7 have less red. 4 is as 3, and all others are as 9."""
    assert chosen(db, dsn, count=3, embeddings="public.vectors") == [3, 6, 7]


def test_rows_of_a_table_of_labels_have_one(db: Connection, dsn: str) -> None:
    """That of dbinfer.label, under its own name or another; then the images need no column for labels."""
    shape = (
        "AS SELECT 2 AS id, 'yes'::text AS label, NULL::text AS proposal, 'anna'::text AS who, now() AS at"
    )
    rows(db, f"CREATE TABLE public.scans_labels {shape}")
    assert chosen(db, dsn, count=3) == [1, 3, 5]
    # what has a label is green, as 2 is, so a blue one comes first
    rows(db, "CREATE VIEW public.bare AS SELECT id, img FROM public.scans WHERE id < 9")
    rows(db, "ALTER TABLE public.scans_labels RENAME TO given")
    options = dbinfer.NextOptions(count=2, labels="public.given", embeddings="public.vectors")
    dbinfer.next("public.bare", "public.answers", options, dsn)
    assert [key for (key,) in rows(db, "SELECT id FROM public.bare_next ORDER BY rank")] == [3, 6]
    rows(db, "DROP VIEW public.bare; DROP TABLE public.given, public.bare_next")


@pytest.mark.wide
def test_every_class_has_candidates(db: Connection, dsn: str) -> None:
    """Of a thousand unsure rows of one class, and one sure row of another, the latter is among ten candidates."""
    rows(
        db,
        "CREATE TABLE public.many AS SELECT n AS id, ''::bytea AS img, NULL::text AS label "
        "FROM generate_series(1, 1001) n",
    )
    rows(
        db,
        "CREATE TABLE public.found AS SELECT n AS id, (n > 1000)::int AS class, NULL::text AS label, "
        "(CASE WHEN n > 1000 THEN 0.9 ELSE 0.4 + n / 10000.0 END)::real AS score FROM generate_series(1, 1001) n",
    )
    vectors = "SELECT n AS id, CASE WHEN n > 1000 THEN '{0,1}' ELSE '{1,0}' END::real[] AS embedding"
    rows(db, f"CREATE TABLE public.two AS {vectors} FROM generate_series(1, 1001) n")
    report = dbinfer.next(
        "public.many",
        "public.found",
        dbinfer.NextOptions(count=2, embeddings="public.two", into="public.todo"),
        dsn,
    )
    assert rows(db, "SELECT id, rank, proposal FROM public.todo ORDER BY rank") == [
        (1, 1, None),
        (1001, 2, None),
    ]
    assert (report.candidates, report.rows, report.model) == (20, 2, None)


@pytest.mark.wide
def test_keys_and_names_that_are_strange(db: Connection, dsn: str) -> None:
    rows(db, 'CREATE TABLE public."odd %s" (a text, "b %s" int, img bytea, "la{}bel" text)')
    rows(db, 'CREATE TABLE public."odd answers" (a text, "b %s" int, class int, label text, score real)')
    for number, key in enumerate(["x", "%s", "{y}", "'z"]):
        rows(db, 'INSERT INTO public."odd %%s" VALUES (%s, %s, NULL, NULL)', key, number)
        rows(
            db,
            'INSERT INTO public."odd answers" VALUES (%s, %s, 0, %s, %s)',
            key,
            number,
            "%s{}",
            0.5 + number / 10,
        )
    options = dbinfer.NextOptions(label='"la{}bel"', key='a,"b %s"', count=9)
    report = dbinfer.next('public."odd %s"', 'public."odd answers"', options, dsn)
    assert report.into == 'public."odd %s_next"'
    found = rows(db, 'SELECT a, "b %s", rank, proposal FROM public."odd %s_next" ORDER BY rank')
    assert found == [(key, place, place + 1, "%s{}") for place, key in enumerate(["x", "%s", "{y}", "'z"])]


@pytest.mark.wide
def test_mistakes_of_next(db: Connection, dsn: str, subtests: pytest.Subtests) -> None:
    rows(db, "CREATE TABLE public.done AS SELECT id, img, 'yes'::text AS label FROM public.scans")
    rows(db, "CREATE TABLE public.nolabel AS SELECT id, img FROM public.scans")
    for table, predictions, values, message in [
        ("public.scans", "public.nothing", {}, "table public.nothing does not exist"),
        (
            "public.scans",
            "public.vectors",
            {},
            "public.vectors holds no classes with their scores, but vectors",
        ),
        (
            "public.nolabel",
            "public.answers",
            {},
            "table public.nolabel has no column 'label' that says which rows have one",
        ),
        ("public.scans", "public.answers", {"label": "truth"}, "table public.scans has no column 'truth'"),
        (
            "public.done",
            "public.answers",
            {},
            "no row of public.done without a label has a result in public.answers",
        ),
        (
            "public.scans",
            "public.answers",
            {"embeddings": "public.answers"},
            "public.answers is no table of embeddings with the key id",
        ),
        (
            "public.scans",
            "public.answers",
            {"into": "public.scans"},
            "table public.scans has the columns id, img, label, not id, rank",
        ),
        (
            "public.scans",
            "public.answers",
            {"labels": "public.scans"},
            "public.scans has the columns id, img, label, but a table of labels has at, id, label, who",
        ),
        ("public.scans", "public.answers", {"model": "reds@7"}, "there are no results of 'reds@7'"),
    ]:
        with subtests.test(message=message), pytest.raises(DataError) as caught:
            dbinfer.next(table, predictions, dbinfer.NextOptions(**values), dsn)  # type: ignore[arg-type]
        assert str(caught.value).startswith(message)
    rows(
        db, "CREATE TABLE public.twice AS SELECT * FROM public.answers UNION ALL SELECT * FROM public.answers"
    )
    with pytest.raises(DataError, match=r"key '\d' is not unique in public.scans, public.twice or"):
        dbinfer.next("public.scans", "public.twice", None, dsn)
    with pytest.raises(UsageError, match="count is 0"):
        dbinfer.NextOptions(count=0)


@pytest.mark.wide
def test_another_users_table_is_not_written_to(db: Connection, dsn: str) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(
            db,
            "CREATE TABLE public.theirs (id int, rank int, proposal text, score real); "
            f"ALTER TABLE public.theirs OWNER TO {name}",
        )
        with pytest.raises(DataError, match="theirs is not written to"):
            dbinfer.next("public.scans", "public.answers", dbinfer.NextOptions(into="public.theirs"), dsn)
        mine, other = dbinfer.NextOptions(into="public.mine"), make_dsn(dsn, options=f"-c role={name}")
        with pytest.raises(DataError, match="permission denied for table answers"):
            dbinfer.next("public.scans", "public.answers", mine, other)
