"""dbinfer.crop in SQL: parts of images compose with every function, under each plan and isolation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.red_box(folder), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    return folder


def photo(left: int, shade: int = 200) -> bytes:
    """Return 80 x 40 pixels of blue with a red square of 20 at (left, 10)."""
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, :, 2] = 250
    pixels[10:30, left : left + 20] = (shade, 0, 0)
    return tiny_models.file(pixels)


FOUND = "(SELECT id, img, unnest(dbinfer.detect(img, 'redbox')) AS d FROM public.photos) s"


@pytest.mark.parametrize("plan", PLANS)
def test_what_was_found_is_classified(db: Connection, plan: str) -> None:
    make_images(db, "photos", [photo(20), photo(50, 150), None], copies=20)
    planned_as(db, plan)
    found = rows(
        db,
        f"SELECT id % 3, count(*), min(c.label), max(c.score) FROM (SELECT id,"
        f" (dbinfer.classify(dbinfer.crop(img, d), 'colours')).* FROM {FOUND}) c GROUP BY 1 ORDER BY 1",
    )
    whole = ask(db, "SELECT (dbinfer.classify(%s, 'colours')).label", photo(20))
    assert [(key, count, label) for key, count, label, _ in found] == [(0, 20, "red"), (1, 20, "red")]
    assert whole == "blue"


COMPOSED = (
    "(dbinfer.classify({}, 'colours')).label",
    "dbinfer.predict({}, 'colours')",
    "dbinfer.predict_tensor({}, 'colours')",
    "dbinfer.detect({}, 'redbox')",
    "dbinfer.classify_top({}, 2, 'colours')",
    "(dbinfer.image_info({})).width",
    "dbinfer.problem({}, 'colours')",
    "dbinfer.classify(dbinfer.image({}::text), 'colours')",
)


@pytest.mark.postgres_only("Greenplum must see by the row that there is an image")
def test_what_is_composed_is_inlined(db: Connection, subtests: pytest.Subtests) -> None:
    """A function that is called for each row costs 0.1 ms: more than a small network."""
    make_images(db, "photos", [photo(20)])
    for call in COMPOSED:
        query = f"SELECT {call.format('dbinfer.crop(img, d)')} FROM {FOUND}"
        names = "|".join(re.findall(r"dbinfer\.(\w+)", query))
        with subtests.test(call):
            plan = "\n".join(line for (line,) in rows(db, f"EXPLAIN (VERBOSE) {query}"))
            assert re.findall(rf"\b(?:{names})\(", plan) == []


def test_every_type_of_a_box(db: Connection) -> None:
    for box in (
        "ARRAY[20, 10, 20, 20]",
        "ARRAY[20, 10, 20, 20.0]::real[]",
        "box '(40,30),(20,10)'",
        "polygon '((20,10),(40,10),(40,30),(20,30))'",
        "ARRAY[[20, 10], [40, 10], [40, 30], [20, 30]]",
        "ROW(NULL, NULL, NULL, 20, 10, 20, 20)::dbinfer.detection",
        '\'{"x": 20, "y": 10, "width": 20, "height": 20}\'::json',
    ):
        part = ask(db, f"SELECT dbinfer.crop(%s, {box})", photo(20))
        assert (tiny_models.pixels(part) == (200, 0, 0)).all(), box
    facts = ask(
        db, "SELECT dbinfer.image_info(dbinfer.crop(%s, ARRAY[20, 10, 20, 20], 0.5))::text", photo(20)
    )
    assert facts.startswith("(BMP,40,40,3,")


def test_null_gives_null(db: Connection) -> None:
    for arguments in ("NULL::bytea, ARRAY[1]", "%s, NULL::integer[]", "%s, ARRAY[0, 0, 9, 9], NULL"):
        values = [photo(20)] * arguments.count("%s")
        assert ask(db, f"SELECT dbinfer.crop({arguments}) IS NULL", *values) is True
    assert ask(db, "SELECT dbinfer.crop(%s, NULL::dbinfer.detection) IS NULL", photo(20)) is True


def test_bad_input_is_one_sentence(db: Connection) -> None:
    diag = refused(db, "22023", "SELECT dbinfer.crop(%s, ARRAY[[0, 0], [9, 0], [9, 9]])", photo(20))
    assert diag.message_primary == "dbinfer: [[0,0],[9,0],[9,9]] is no box"
    assert "four corners" in (diag.message_hint or "")
    diag = refused(db, "22023", "SELECT dbinfer.crop(%s, ARRAY[80, 0, 5, 5])", photo(20))
    assert (
        diag.message_primary
        == "dbinfer: the box lies outside of the image of 80 x 40: from (80, 0) to (85, 5)"
    )
    diag = refused(db, "22P03", "SELECT dbinfer.crop('\\x00', ARRAY[0, 0, 5, 5])")
    assert "not an image" in (diag.message_primary or "")


def test_no_backend_decodes_where_isolation_is_always(db: Connection) -> None:
    rows(db, "BEGIN; SELECT dbinfer_private.set_setting('isolation', 'always')")
    try:
        part = ask(db, "SELECT dbinfer.crop(%s, ARRAY[20, 10, 20, 20])", photo(20))
    finally:
        rows(db, "ROLLBACK")
    assert (tiny_models.pixels(part) == (200, 0, 0)).all()
