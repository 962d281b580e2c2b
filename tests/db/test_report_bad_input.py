"""report: what cannot be shown is one sentence with its hint, and no file is written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from asking import role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import DataError, UsageError
from dbinfer.report import ReportOptions, report

TABLES = """
CREATE TABLE public.images (id bigint, img bytea, label text, note text);
INSERT INTO public.images VALUES (1, '\\x00', 'a', ''), (2, '\\x00', 'b', '');
CREATE TABLE public.good AS SELECT id, 0 AS class, 'a'::text AS label, 0.5::real AS score FROM public.images;
CREATE TABLE public.empty AS SELECT * FROM public.good LIMIT 0;
CREATE TABLE public.no_result (id bigint);
CREATE TABLE public.no_key AS SELECT class, label, score FROM public.good;
CREATE TABLE public.double AS SELECT * FROM public.good UNION ALL SELECT * FROM public.good;
CREATE TABLE public.others AS SELECT id + 100 AS id, class, label, score FROM public.good;
CREATE TABLE public.sizes AS SELECT id, ARRAY_FILL(0::real, ARRAY[id::integer]) AS embedding FROM public.images;
CREATE TABLE public.versions AS
  SELECT id, 'm'::text AS model, 1 AS version, class, label, score, now() AS scored_at FROM public.good;
CREATE TABLE public.strange AS SELECT id, 0 AS class, 'x'::text AS label, 0.5::real AS score FROM public.images;
"""
CASES: list[tuple[str, str, dict[str, Any], str]] = [
    ("nowhere", "good", {}, "table public.nowhere does not exist"),
    ("images", "nowhere", {}, "table public.nowhere does not exist"),
    ("images", "empty", {}, "table public.empty has no rows, so there is nothing to report"),
    ("images", "no_result", {}, "public.no_result has no column with results"),
    ("images", "no_key", {}, "table public.no_key has no column 'id'"),
    ("images", "good", {"key": "path"}, "table public.images has no column 'path'"),
    ("images", "good", {"column": "photo"}, "table public.images has no column 'photo'"),
    ("images", "good", {"column": "id"}, "column 'id' of public.images is int8, but images are bytea, or"),
    ("images", "good", {"label": "species"}, "table public.images has no column 'species'"),
    ("images", "good", {"truth": "note"}, "column 'note' of public.images is text, but images are bytea"),
    ("images", "double", {}, "is not unique in public.images or public.double"),
    ("images", "others", {}, "no row of public.others has an image in public.images"),
    ("images", "strange", {}, "no label of the images is a class of the model: 'a', 'b'"),
    ("images", "sizes", {}, "the embeddings have 1 to 2 numbers"),
    ("images", "versions", {"model": "m@9"}, "there are no results of 'm@9'"),
    ("images", "versions", {"against": "n@1"}, "there are no results of 'n@1'"),
    ("images", "good", {"against": "m@1"}, "does not say which version scored a row"),
    ("images", "good", {"model": "gone"}, "model 'gone' does not exist"),
]


@pytest.fixture(scope="module", autouse=True)
def tables(dsn: str) -> None:
    from contextlib import closing

    import psycopg2

    with closing(psycopg2.connect(dsn)) as conn, conn, conn.cursor() as cur:
        cur.execute(TABLES)


@pytest.mark.parametrize(
    ("table", "predictions", "values", "sentence"), CASES, ids=[case[3][:50] for case in CASES]
)
def test_one_sentence(
    dsn: str, tmp_path: Path, table: str, predictions: str, values: dict[str, Any], sentence: str
) -> None:
    out = tmp_path / "page.html"
    with pytest.raises(DataError) as caught:
        report(table, predictions, ReportOptions(out=out, **values), dsn)
    assert sentence in caught.value.message
    assert caught.value.hint or "bytea" in sentence
    assert not out.exists()


def test_a_name_that_is_none_and_a_place_that_takes_no_file(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="is not a table's name"):
        report("a.b.c", "good", ReportOptions(out=tmp_path / "p.html"), dsn)
    with pytest.raises(UsageError, match="is a folder"):
        report("images", "good", ReportOptions(out=tmp_path), dsn)
    with pytest.raises(UsageError, match="sample is 0"):
        report("images", "good", ReportOptions(out=tmp_path / "p.html", sample=0), dsn)
    (tmp_path / "file").write_text("")
    with pytest.raises(DataError, match="cannot write"):
        report("images", "good", ReportOptions(out=tmp_path / "file" / "p.html"), dsn)


def test_who_may_not_read_the_images_gets_the_servers_word(db: Connection, dsn: str, tmp_path: Path) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        rows(db, f"GRANT SELECT ON public.good TO {name}")
        other = make_dsn(dsn, options=f"-c role={name}")
        with pytest.raises(DataError, match="permission denied for table images"):
            report("images", "good", ReportOptions(out=tmp_path / "p.html"), other)
