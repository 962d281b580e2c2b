"""A trigger that fills a column when a row is written: dbinfer.fill."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import tiny_models
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

RED, GREEN = (tiny_models.file(tiny_models.picture(*colour)) for colour in ((200, 30, 10), (10, 220, 30)))
BAD = b"no image"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for made in (tiny_models.colour_classifier, tiny_models.red_mask, tiny_models.colour_embedding):
        deploy(made(folder), dsn=dsn)


@pytest.fixture
def table(db: Connection) -> Iterator[str]:
    rows(db, 'CREATE TABLE public.arriving (id integer, "the image" bytea, told text, of text)')
    yield "public.arriving"
    rows(db, "DROP TABLE public.arriving")


def fill(db: Connection, *arguments: str, when: str = "BEFORE INSERT OR UPDATE") -> None:
    quoted = ", ".join(f"'{one}'" for one in arguments)
    rows(
        db,
        f"CREATE TRIGGER scored {when} ON public.arriving FOR EACH ROW EXECUTE PROCEDURE dbinfer.fill({quoted})",
    )


def insert(db: Connection, number: int, img: bytes | None) -> None:
    rows(db, "INSERT INTO public.arriving VALUES (%s, %s, 'old', 'other')", number, img)


def label_of(db: Connection, img: bytes) -> str:
    return str(ask(db, "SELECT (dbinfer.classify(%s, 'colours')).label", img))


def test_rows_get_their_label(db: Connection, table: str) -> None:
    fill(db, "told", "the image", "colours")
    for number, img in enumerate((RED, GREEN, None)):
        insert(db, number, img)
    assert rows(db, "SELECT id, told, of FROM public.arriving ORDER BY id") == [
        (0, label_of(db, RED), "other"),
        (1, label_of(db, GREEN), "other"),
        (2, None, "other"),
    ]
    assert ask(db, 'SELECT "the image" FROM public.arriving WHERE id = 0') == RED
    rows(db, 'UPDATE public.arriving SET "the image" = %s WHERE id = 0', GREEN)
    assert ask(db, "SELECT told FROM public.arriving WHERE id = 0") == label_of(db, GREEN)


def test_a_damaged_image_ends_the_insert_or_passes(db: Connection, table: str) -> None:
    fill(db, "told", "the image", "colours")
    assert "not an image" in str(
        refused(db, "22P03", "INSERT INTO public.arriving VALUES (1, %s)", BAD).message_primary
    )
    rows(db, "DROP TRIGGER scored ON public.arriving")
    fill(db, "told", "the image", "colours", "null")
    insert(db, 1, BAD)
    assert rows(db, "SELECT id, told FROM public.arriving") == [(1, None)]


@pytest.mark.parametrize(
    ("type_", "model", "query"),
    [
        ("dbinfer.classification", "colours", "dbinfer.classify(%s, 'colours')"),
        ("bytea", "redness", "dbinfer.segment(%s, 'redness')"),
        ("real[]", "vector", "dbinfer.embed(%s, 'vector')"),
        ("varchar(3)", "colours", "(dbinfer.classify(%s, 'colours')).label"),
    ],
)
def test_columns_of_each_type(db: Connection, table: str, type_: str, model: str, query: str) -> None:
    rows(db, f"ALTER TABLE public.arriving ADD result {type_}")
    fill(db, "result", "the image", model)
    insert(db, 1, RED)
    assert ask(db, "SELECT result FROM public.arriving") == ask(db, "SELECT " + query, RED)


def test_it_says_how_it_is_used(db: Connection, table: str) -> None:
    fill(db, "missing", "the image", "colours")
    diag = refused(db, "42703", "INSERT INTO public.arriving VALUES (1, %s)", RED)
    # on a cluster the segment's place follows
    assert str(diag.message_primary).startswith(
        "table public.arriving has no column missing for dbinfer.fill"
    )
    rows(db, "DROP TRIGGER scored ON public.arriving")
    fill(db, "told", "of", "colours")
    diag = refused(db, "42703", "INSERT INTO public.arriving VALUES (1, %s)", RED)
    assert "public.arriving has no column of of type bytea for dbinfer.fill" in str(diag.message_primary)
    rows(db, "DROP TRIGGER scored ON public.arriving")
    fill(db, "told", when="AFTER INSERT")
    diag = refused(db, "39P01", "INSERT INTO public.arriving VALUES (1, %s)", RED)
    assert "CREATE TRIGGER scored" in str(diag.message_hint)


def test_who_writes_needs_the_right_to_the_model(db: Connection, table: str) -> None:
    fill(db, "told", "the image", "colours")
    rows(db, "GRANT INSERT ON public.arriving TO PUBLIC")
    with role(db):
        insert(db, 1, RED)
    rows(db, "SELECT dbinfer.revoke_model('colours', 'public')")
    try:
        with role(db):
            refused(db, "42501", "INSERT INTO public.arriving VALUES (2, %s)", RED)
    finally:
        rows(db, "SELECT dbinfer.grant_model('colours', 'public')")
    assert ask(db, "SELECT count(*) FROM public.arriving") == 1
