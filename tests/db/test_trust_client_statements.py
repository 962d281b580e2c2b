"""A schema that others may write stands in the caller's path: their operators never run in statements of the client."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.images.load import LoadOptions, load
from dbinfer.models import deploy, models
from dbinfer.report import ReportOptions, report
from dbinfer.score import PredictOptions, ScoreOptions, predict, score
from dbinfer.train.query import Query, Snapshot

pytestmark = pytest.mark.wide

# Pairs without an operator of the server's own: an operator of these types is the best match wherever it is found
PAIRS = [
    ("oid", "regclass"),
    ("regclass", "oid"),
    ("varchar", "text"),
    ("text", "varchar"),
    ("varchar", "varchar"),
]
PAIRS += [("name", "varchar"), ('"char"', "text"), ("regclass", "regclass")]


@pytest.fixture
def planted(db: Connection) -> Iterator[None]:
    """Operators in public that note who runs them."""
    rows(db, "CREATE TABLE public.stolen (who text, what text)")
    for number, (left, right) in enumerate(PAIRS):
        for operator, sign in (("=", ""), ("<>", "NOT")):
            plain = "oid" if "reg" in left + right else "text"
            name = f"public.steal_{number}_{'eq' if operator == '=' else 'ne'}"
            rows(
                db,
                f"CREATE FUNCTION {name}({left}, {right}) RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN "
                f"INSERT INTO public.stolen VALUES (current_user, '{left} {operator} {right}'::text); "
                f"RETURN {sign} ($1::{plain} OPERATOR(pg_catalog.=) $2::{plain}); END $$",
            )
            rows(
                db,
                f"CREATE OPERATOR public.{operator} "
                f"(LEFTARG = {left}, RIGHTARG = {right}, PROCEDURE = {name})",
            )
    yield
    for number in range(len(PAIRS)):
        rows(db, f"DROP FUNCTION public.steal_{number}_eq CASCADE")
        rows(db, f"DROP FUNCTION public.steal_{number}_ne CASCADE")
    rows(db, "DROP TABLE public.stolen")


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 100))):
        (tmp_path / f"{name}.png").write_bytes(tiny_models.file(tiny_models.picture(*colour)))
    return tmp_path


def test_training_runs_no_operator_or_function_of_others(
    db: Connection, dsn: str, photos: Path, planted: None
) -> None:
    """`unnest(bigint[])` is a better match than the server's unnest(anyarray), `=` of varchar than that of text."""
    rows(
        db,
        "CREATE FUNCTION public.unnest(bigint[]) RETURNS SETOF bigint LANGUAGE plpgsql AS $$ BEGIN INSERT INTO "
        "public.stolen VALUES (current_user, 'unnest'); RETURN QUERY SELECT pg_catalog.unnest($1); END $$",
    )
    rows(db, "CREATE TABLE public.lesson (key varchar, img bytea, word varchar)")
    for path in photos.iterdir():
        rows(db, "INSERT INTO public.lesson VALUES (%s, %s, %s)", path.stem, path.read_bytes(), path.stem)
    snapshot = Snapshot(dsn)
    try:
        for text in ("SELECT img, word, key FROM lesson", "SELECT img, img FROM lesson"):
            query = Query.find(text, snapshot)
            assert len(query.open([1, 0])) == 2
    finally:
        snapshot.close()
        rows(db, "DROP FUNCTION public.unnest(bigint[])")
    assert rows(db, "SELECT DISTINCT * FROM public.stolen") == []


def test_load_score_and_predict_run_no_operator_of_others(
    db: Connection, dsn: str, photos: Path, planted: None
) -> None:
    (photos / "ir").mkdir()
    deploy(tiny_models.colour_classifier(photos / "ir"), dsn=dsn)
    rows(db, "CREATE TABLE public.shots (path varchar, img bytea)")
    options = LoadOptions("shots", recursive=False)
    assert load(photos, options, dsn).loaded == 2
    assert load(photos, options, dsn).skipped == 2
    assert load(photos, LoadOptions("fresh", recursive=False), dsn).loaded == 2
    by_path = ScoreOptions(key="path", append=True)
    assert score("shots", "answers", by_path, dsn).rows == 2
    assert score("shots", "answers", by_path, dsn).rows == 0
    assert predict(photos / "red.png", PredictOptions(model="colours"), dsn).ok
    assert report("shots", "answers", ReportOptions(out=photos / "page.html", key="path"), dsn).rows == 2
    assert models(dsn)
    assert rows(db, "SELECT DISTINCT * FROM public.stolen") == []
    assert ask(db, "SELECT count(*) FROM public.answers") == 2
