"""dbinfer.find_text, read_line, read and read_text: networks that take images of any size, under each plan."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import ModelFileError
from dbinfer.models import deploy

COLOURS = {"R": (200, 0, 0), "G": (0, 200, 0), "B": (0, 0, 200)}


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    for made in (tiny_models.dark_lines(folder), tiny_models.colour_reader(folder)):
        deploy(made, dsn=dsn)
    # says of a line with much red that it is upside down
    deploy(tiny_models.colour_classifier(folder, "side", labels=["180", "0", "0"]), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    return folder


def page(*lines: tuple[str, int, int], size: tuple[int, int] = (100, 200)) -> bytes:
    """Return a PNG of white with words of coloured squares of 16 pixels: each with the x and y where it begins."""
    pixels = np.full((*size, 3), 255, np.uint8)
    for word, x, y in lines:
        for place, letter in enumerate(word):
            pixels[y : y + 16, x + 16 * place : x + 16 * place + 16] = COLOURS[letter]
    return tiny_models.file(pixels)


TWO = page(("RGB", 8, 10), ("BG", 120, 14), ("GRGR", 30, 60))


def test_lines_in_the_order_of_reading(db: Connection) -> None:
    found = rows(db, "SELECT l.text, l.score, l.box FROM unnest(dbinfer.find_text(%s, 'lines')) l", TWO)
    assert [text for text, _, _ in found] == [None, None, None]
    assert all(0.6 < score < 0.8 for _, score, _ in found)
    expected = [(8, 10, 56, 26), (120, 14, 152, 30), (30, 60, 94, 76)]
    for (_, _, box), (left, top, right, bottom) in zip(found, expected, strict=True):
        assert np.abs(np.array(box) - (left, top, right, top, right, bottom, left, bottom)).max() <= 2


def test_read(db: Connection) -> None:
    found = rows(db, "SELECT l.text, l.box[1] FROM unnest(dbinfer.read(%s, 'lines', 'letters')) l", TWO)
    assert [text for text, _ in found] == ["RGB", "BG", "GRGR"]
    assert ask(db, "SELECT dbinfer.read_text(%s, 'lines', 'letters')", TWO) == "RGB\nBG\nGRGR"
    assert ask(db, "SELECT dbinfer.read(%s, 'lines', 'letters', min_score => 0.99)", TWO) in ([], "{}")
    line = ask(db, "SELECT (dbinfer.read_line(dbinfer.crop(%s, ARRAY[30, 60, 64, 16]), 'letters')).text", TWO)
    assert line == "GRGR"


def test_lines_upside_down(db: Connection) -> None:
    found = ask(
        db,
        "SELECT dbinfer.read_text(%s, 'lines', 'letters', 'side')",
        page(("RRRG", 8, 10), ("BG", 8, 60)),
    )
    assert found == "GR\nBG"


@pytest.mark.parametrize("plan", PLANS)
def test_many_sizes_in_one_table(db: Connection, plan: str) -> None:
    pages = [page(("RGB" * (1 + n % 3), 4, 4 + n), size=(60 + 40 * n, 180 + 20 * n)) for n in range(5)]
    make_images(db, "scans", [*pages, page(), None], copies=6)
    planned_as(db, plan)
    found = rows(
        db,
        "SELECT id % 7, count(*), min(t), max(t) FROM (SELECT id, dbinfer.read_text(img, 'lines', 'letters') AS t"
        " FROM public.scans OFFSET 0) s GROUP BY 1 ORDER BY 1",
    )
    words = ["RGB" * (1 + n % 3) for n in range(5)] + ["", None]
    assert found == [(key, 6, word, word) for key, word in enumerate(words)]


def test_whole_tables(db: Connection, dsn: str) -> None:
    make_images(db, "scans", [TWO, page(("GB", 9, 9))], copies=2)
    found = rows(
        db,
        "SELECT t.result FROM dbinfer._table('find_text', 'public.scans', 'lines', 'error', 'id', 'img') t ORDER BY id",
    )
    assert [line.count("(") for (line,) in found] == [3, 1, 3, 1]


def test_in_the_engine(db: Connection) -> None:
    rows(db, "BEGIN; SELECT dbinfer_private.set_setting('isolation', 'always')")
    try:
        wide = page(("RGBRGBRGB", 8, 10), size=(300, 700))
        assert ask(db, "SELECT dbinfer.read_text(%s, 'lines', 'letters')", TWO) == "RGB\nBG\nGRGR"
        assert ask(db, "SELECT dbinfer.read_text(%s, 'lines', 'letters')", wide) == "RGBRGBRGB"
    finally:
        rows(db, "ROLLBACK")


def test_null_and_nothing(db: Connection) -> None:
    for call in (
        "read(NULL, 'lines', 'letters')",
        "read_text(NULL, 'lines', 'letters')",
        "find_text(NULL, 'lines')",
    ):
        assert ask(db, f"SELECT dbinfer.{call} IS NULL") is True
    assert ask(db, "SELECT dbinfer.read_text(%s, 'lines', 'letters')", page()) == ""
    assert ask(db, "SELECT dbinfer.read('x', 'lines', 'letters', on_error => 'null') IS NULL") is True
    assert ask(db, "SELECT (dbinfer.read_line(%s, 'letters')).text", page()) == ""


def test_bad_input_is_one_sentence(db: Connection, models: Path) -> None:
    diag = refused(db, "22023", "SELECT dbinfer.read(%s, 'colours', 'letters')", TWO)
    assert diag.message_primary == (
        'dbinfer: model "colours" is for classification, but find_text() needs text_detection'
    )
    diag = refused(db, "22023", "SELECT dbinfer.read(%s, 'lines', 'lines')", TWO)
    assert diag.message_primary == 'dbinfer: model "lines" is for text_detection, but read_line() needs text'
    diag = refused(db, "42704", "SELECT dbinfer.read(%s, 'lines', 'nobody')", TWO)
    assert diag.message_primary == 'model "nobody" does not exist'


def test_deploy_refuses_what_cannot_be_read(dsn: str, tmp_path: Path) -> None:
    for values, words in (
        ({"labels": []}, r"has shape \[1, 4, 4\] and its manifest 0 labels"),
        ({"labels": ["", "R", "G"]}, "3 labels"),
    ):
        with pytest.raises(ModelFileError, match=words):
            deploy(tiny_models.colour_reader(tmp_path, **values), dsn=dsn)
    with pytest.raises(ModelFileError, match=r"cannot take images of any size, as resize keep_height wants"):
        deploy(tiny_models.flattened(tmp_path, resize="keep_height"), dsn=dsn)
