"""The sisters of classify_table give what their row functions give, and so do the tables that they fill."""

from __future__ import annotations

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from float32 import tolerance
from psycopg2.extensions import Diagnostics
from psycopg2.extensions import connection as Connection
from variants import wide

from dbinfer.models import deploy

# function, model, column of the result, its type
SISTERS = [
    ("predict", "conv", "values", "real[]"),
    ("predict", "redness", "values", "real[]"),
    ("predict", "gaps", "values", "real[]"),
    ("embed", "vector", "embedding", "real[]"),
    ("segment", "redness", "mask", "bytea"),
    ("detect", "redbox", "detections", "dbinfer.detection[]"),
]
BY_ROW = "SELECT id, dbinfer.{0}(img, '{1}', '{2}') FROM many"
IN_BATCHES = "SELECT id, \"{3}\" FROM dbinfer.{0}_table('many', '{1}', '{2}')"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for path in (
        tiny_models.convolution(folder),
        tiny_models.red_mask(folder),
        tiny_models.red_box(folder),
        tiny_models.colour_embedding(folder),
        tiny_models.gaps(folder),
    ):
        deploy(path, dsn=dsn)


@pytest.fixture(scope="module", autouse=True)
def images(dsn: str, models: None) -> None:
    random = np.random.default_rng(3)
    files: list[bytes | None] = [
        tiny_models.file(random.integers(0, 256, (9, 11 + n % 3, 3)).astype(np.uint8)) for n in range(50)
    ]
    files[5], files[7] = None, b"no image"
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    make_images(connection, "many", files, copies=11)
    connection.close()


@pytest.fixture(params=[PLANS[0], *wide(*PLANS[1:])])
def planned(request: pytest.FixtureRequest, db: Connection) -> Connection:
    return planned_as(db, request.param)


def plain(found: list[tuple[int, object]]) -> list[tuple[int, object]]:
    """Return rows by their ids, with bytes for memoryviews."""
    values = ((n, bytes(v) if isinstance(v, memoryview) else v) for n, v in found)
    return sorted(values, key=lambda row: row[0])


def close(one: object, other: object) -> bool:
    """Return whether two results are equal: a network may add up in another order in a batch."""
    if not isinstance(one, list) or not isinstance(other, list):
        return one == other
    # Four sums, the longest of 3 * 3 * 16 terms, of grey levels to 255; softmax makes shares of such differences
    rounding = tolerance(255.0, 4, 3 * 3 * 16)
    return len(one) == len(other) and bool(np.allclose(one, other, rtol=rounding, equal_nan=True))


@pytest.mark.wide
def test_every_row_is_as_row_by_row(planned: Connection, subtests: pytest.Subtests) -> None:
    for sister in SISTERS:
        with subtests.test(sister=sister):
            function, model, column, _ = sister
            one = plain(rows(planned, BY_ROW.format(function, model, "null")))
            many = plain(rows(planned, IN_BATCHES.format(function, model, "null", column)))
            assert [number for number, _ in many] == [number for number, _ in one] == list(range(550))
            assert [
                n for (n, found), (_, other) in zip(many, one, strict=True) if not close(found, other)
            ] == []
            assert sum(found is None for _, found in many) == 22


@pytest.mark.wide
def test_results_go_into_a_table(db: Connection, subtests: pytest.Subtests) -> None:
    for sister in SISTERS:
        with subtests.test(sister=sister):
            function, model, column, kind = sister
            rows(db, "DROP TABLE IF EXISTS kept")
            rows(db, f'CREATE TABLE kept (id bigint, "{column}" {kind})')
            assert ask(db, f"SELECT dbinfer.{function}_into('kept', 'many', '{model}', 'null')") == 550
            kept = plain(rows(db, f'SELECT id, "{column}" FROM kept'))
            one = plain(rows(db, BY_ROW.format(function, model, "null")))
            assert [
                n for (n, found), (_, other) in zip(kept, one, strict=True) if not close(found, other)
            ] == []


@pytest.mark.wide
def test_wrong_calls_are_told_so(db: Connection, subtests: pytest.Subtests) -> None:
    for sister in SISTERS:
        with subtests.test(sister=sister):
            function, model, column, _ = sister
            diag = refused(db, "22P03", IN_BATCHES.format(function, model, "error", column))
            assert "dbinfer" in diag.message_primary
            refused(db, "22023", IN_BATCHES.format(function, model, "perhaps", column))
            diag = refused(
                db, "42703", f"SELECT * FROM dbinfer.{function}_table('many', img_column => 'photo')"
            )
            assert f"dbinfer.{function}_table('images'" in diag.message_hint
            diag = refused(db, "42703", f"SELECT dbinfer.{function}_into('many', 'many', '{model}', 'null')")
            assert f'column "{column}"' in diag.message_primary


def test_a_model_of_another_task_is_refused(db: Connection, subtests: pytest.Subtests) -> None:
    for function in ["classify", "embed", "segment", "detect"]:
        with subtests.test(function=function):
            diag = refused(db, "22023", f"SELECT * FROM dbinfer.{function}_table('many', 'gaps', 'null')")
            assert f"is for tensor, but {function}_table() needs" in diag.message_primary


def test_a_column_named_values_needs_no_quotes_in_a_query(db: Connection) -> None:
    query = "SELECT t.values[1] FROM dbinfer.predict_table('many', 'gaps', 'null') t WHERE id = 0"
    assert len(rows(db, query)) == 1


HINT = "With on_error => 'null' such an image gives NULL."


@pytest.fixture(scope="module", params=[540, *wide(3)], ids=["in the rest", "in a batch"])
def spoilt(request: pytest.FixtureRequest, dsn: str, images: None) -> int:
    """Make `spoilt`, a table with one bad image; its key, the column "no", is not where the row stands."""
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    rows(connection, "DROP TABLE IF EXISTS spoilt")
    rows(
        connection, "CREATE TABLE spoilt AS SELECT id + 7000 AS no, img FROM many WHERE id % 50 NOT IN (5, 7)"
    )
    rows(connection, "UPDATE spoilt SET img = '\\x89504e470d0a1a0a' WHERE no = %s", 7000 + request.param)
    rows(connection, "ANALYZE spoilt")
    connection.close()
    return 7000 + int(request.param)


def told(diag: Diagnostics, number: int) -> None:
    """See that an error names the row and the hint, and shows no statement of ours."""
    # Greenplum adds which segment it was
    assert (diag.message_primary or "").startswith(
        f"dbinfer: row {number}: the image is cut off: its 8 bytes end within the header"
    )
    assert HINT in (diag.message_hint or "")
    assert "SELECT" not in (diag.context or ""), diag.context
    assert "Traceback" not in (diag.context or ""), diag.context
    assert len((diag.context or "").splitlines()) <= 1, diag.context


@pytest.mark.parametrize(
    "sister", [SISTERS[0], *wide(*((s,) for s in SISTERS[3:]))], ids=lambda s: "-".join(s[:2])
)
def test_an_error_names_the_row(db: Connection, spoilt: int, sister: tuple[str, ...]) -> None:
    function, model, column, kind = sister
    call = f"'spoilt', '{model}', id_column => 'no'"
    told(refused(db, "22P03", f"SELECT * FROM dbinfer.{function}_table({call})"), spoilt)
    rows(db, "DROP TABLE IF EXISTS kept")
    rows(db, f'CREATE TABLE kept (id bigint, "{column}" {kind})')
    told(refused(db, "22P03", f"SELECT dbinfer.{function}_into('kept', {call})"), spoilt)
    assert ask(db, "SELECT count(*) FROM kept") == 0


@pytest.mark.wide
def test_an_error_names_the_row_in_each_plan(planned: Connection, spoilt: int) -> None:
    told(
        refused(
            planned, "22P03", "SELECT * FROM dbinfer.segment_table('spoilt', 'redness', id_column => 'no')"
        ),
        spoilt,
    )
    query = "SELECT * FROM dbinfer.similar('spoilt', %s, 'vector', id_column => 'no')"
    image = tiny_models.file(tiny_models.picture(1, 2, 3))
    told(refused(planned, "22P03", query, image), spoilt)


def test_other_errors_show_no_statement_of_ours_either(db: Connection) -> None:
    rows(db, "CREATE OR REPLACE VIEW broken AS SELECT 1 / (id - 3) AS id, img FROM many")
    for query in (
        "SELECT * FROM dbinfer.segment_table('many', 'nobody')",
        "SELECT * FROM dbinfer.segment_table('broken', 'redness', 'null')",
        "SELECT dbinfer.segment_into('many', 'many', 'redness', 'null')",
        "SELECT * FROM dbinfer.similar('broken', '\\x00', 'nobody')",
    ):
        with pytest.raises(psycopg2.Error) as caught:
            rows(db, query)
        context = caught.value.diag.context or ""
        assert "SELECT" not in context, context
        assert len(context.splitlines()) <= 1, context
        for more in (caught.value.diag.message_detail, caught.value.diag.message_hint):
            assert more is None or more, "an empty line"
