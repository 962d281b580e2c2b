"""dbinfer.draw: boxes, lines and masks on the image as shown, and what it refuses, in the session and apart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

BOXES = "ARRAY[ROW('Zoë 中', 1, 0.87, 40, 60, 80, 50)]::dbinfer.detection[]"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.red_box(tmp_path_factory.mktemp("irs")), dsn=dsn)
    deploy(tiny_models.red_mask(tmp_path_factory.mktemp("irs")), dsn=dsn)


@pytest.fixture(params=["auto", "always"], autouse=True)
def isolation(db: Connection, request: pytest.FixtureRequest) -> Iterator[str]:
    before = rows(db, "SELECT value FROM dbinfer_private.setting WHERE name = 'isolation'")
    ask(db, "SELECT dbinfer_private.set_setting('isolation', %s)", request.param)
    yield request.param
    ask(db, "SELECT dbinfer_private.set_setting('isolation', %s)", before[0][0] if before else "auto")


def photo(width: int = 200, height: int = 150) -> bytes:
    return tiny_models.file(np.full((height, width, 3), 90, np.uint8))


def drawn(db: Connection, image: bytes, what: str) -> np.ndarray:
    return tiny_models.pixels(ask(db, f"SELECT dbinfer.draw(%s, {what})", image))


def test_a_box_is_where_the_detection_says(db: Connection) -> None:
    found = drawn(db, photo(), BOXES)
    assert found.shape == (150, 200, 3)
    changed = (found != 90).any(2)
    assert changed[60, 40:120].all()
    assert changed[109, 40:120].all()
    assert changed[60:110, 40].all()
    assert not changed[62:108, 42:118].any()
    assert changed[:60].any()  # its label
    assert not changed[112:].any()


def test_a_mask_colours_what_is_in_it(db: Connection) -> None:
    image = np.full((40, 80, 3), 30, np.uint8)
    image[:, 40:, 0] = 250
    data = tiny_models.file(image)
    found = tiny_models.pixels(
        ask(db, "SELECT dbinfer.draw(%s, mask => dbinfer.segment(%s, 'redness'))", data, data)
    )
    assert (found[:, :35] == image[:, :35]).all()
    assert (found[:, 45:] != image[:, 45:]).any(2).all()


def test_detect_and_draw_go_together_on_a_turned_image(db: Connection) -> None:
    image = np.zeros((80, 40, 3), np.uint8)
    image[20:60, 10:30, 0] = 255
    data = tiny_models.file(
        image,
        "JPEG",
        quality=95,
        exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06" + bytes(6),
    )
    found = tiny_models.pixels(ask(db, "SELECT dbinfer.draw(%s, dbinfer.detect(%s, 'redbox'))", data, data))
    assert found.shape == (40, 80, 3)


LINE = "ROW('Zoë', 0.9, ARRAY[60, 40, 140, 60, 130, 100, 50, 80])"


def test_a_line_of_text_is_its_quadrilateral(db: Connection) -> None:
    found = drawn(db, photo(), f"lines => ARRAY[{LINE}]::dbinfer.text_line[]")
    changed = (found != 90).any(2)
    # the middles of its sides; the box around it has other corners
    assert changed[[50, 80, 89, 60], [100, 134, 90, 55]].all()
    assert not changed[[95, 64], [54, 137]].any()
    assert not changed[62:78, 70:120].any()
    assert changed[25:40, 60:140].any()  # its text


def test_neighbours_have_other_colours(db: Connection) -> None:
    """Boxes of one class that touch, and lines; a box far from all has its class's colour."""
    boxes = "ROW('a', 3, NULL, 10, 60, 30, 20), ROW('a', 3, NULL, 42, 60, 30, 20), ROW('a', 3, NULL, 150, 60, 30, 20)"
    line = "ROW('', NULL, ARRAY[10, 82, 72, 82, 72, 100, 10, 100])"
    call = f"ARRAY[{boxes}]::dbinfer.detection[], lines => ARRAY[{line}]::dbinfer.text_line[]"
    found = drawn(db, photo(), call)
    one, two, far, below = (tuple(found[y, x]) for x, y in ((20, 79), (60, 79), (160, 79), (40, 99)))
    assert len({one, two, below, (90, 90, 90)}) == 4
    assert far == one
    assert (drawn(db, photo(), call) == found).all()


@pytest.mark.wide
def test_nothing_to_draw_is_the_image_and_null_is_null(db: Connection) -> None:
    assert (drawn(db, photo(), "'{}'::dbinfer.detection[]") == 90).all()
    for call in (
        "NULL, '{}'::dbinfer.detection[]",
        "'\\x00', NULL::dbinfer.detection[]",
        "'\\x00'",
    ):
        assert ask(db, f"SELECT dbinfer.draw({call}) IS NULL") is True


@pytest.mark.wide
def test_numbers_of_all_kinds_do_no_harm(db: Connection) -> None:
    odd = (
        "ARRAY[ROW('a', 1, 'NaN', 'NaN', 1, 1, 1), ROW(NULL, -5, NULL, -1e30, -1e30, 2e30, 2e30), NULL,"
        "ROW('b', 2000000000, 1, 5, 5, -9, -9), ROW(NULL, NULL, NULL, NULL, NULL, NULL, NULL)]"
    )
    assert drawn(db, photo(), f"{odd}::dbinfer.detection[]").shape == (150, 200, 3)
    odd = "ARRAY[NULL, ROW(NULL, NULL, NULL), ROW('a', 'NaN', ARRAY[1, 'NaN', 1e30, -1e30, 9, 9, NULL, 8]::real[])]"
    assert drawn(db, photo(), f"lines => {odd}::dbinfer.text_line[]").shape == (150, 200, 3)


@pytest.mark.wide
def test_bad_images_are_the_usual_errors(db: Connection) -> None:
    for image, said in (
        (b"", "the image is empty"),
        (b"x" * 50, "not an image"),
        (photo()[:60], "cut off|damaged"),
    ):
        with pytest.raises(psycopg2.errors.InvalidBinaryRepresentation, match=said):
            drawn(db, image, BOXES)
    with pytest.raises(psycopg2.errors.InvalidBinaryRepresentation, match="not an image"):
        drawn(db, photo(), "mask => '\\x6e6f6e65'")


def test_what_does_not_fit_is_refused(db: Connection) -> None:
    with pytest.raises(psycopg2.Error, match="the mask has 8 x 8 pixels, but the image has 200 x 150"):
        ask(db, "SELECT dbinfer.draw(%s, mask => %s)", photo(), tiny_models.file(np.zeros((8, 8), np.uint8)))
    many = "array_fill(ROW('a', 1, 1, 1, 1, 1, 1)::dbinfer.detection, ARRAY[10001])"
    with pytest.raises(psycopg2.Error, match="there are 10001 boxes to draw, but 10000 are the most"):
        drawn(db, photo(), many)
    with pytest.raises(psycopg2.Error, match="the box of a line has 6 numbers, but four corners have 8"):
        drawn(db, photo(), "lines => ARRAY[ROW('a', 1, ARRAY[1, 2, 3, 4, 5, 6])]::dbinfer.text_line[]")
    with pytest.raises(psycopg2.errors.ProgramLimitExceeded, match="max_image_pixels"):
        drawn(db, _huge(), BOXES)


@pytest.mark.wide
def test_a_timeout_ends_it_in_the_midst(db: Connection) -> None:
    """It took effect after the last box; early, the image was called hostile, for the signal ends who draws, too."""
    many = "array_fill(ROW(repeat('W', 60), 1, 1, 9, 9, 2900, 2900)::dbinfer.detection, ARRAY[800])"
    image = photo(3000, 3000)
    try:
        for milliseconds in (40, 80, 120, 160, 500):
            rows(db, f"SET statement_timeout = {milliseconds}")
            with pytest.raises(psycopg2.errors.QueryCanceled):
                drawn(db, image, many)
    finally:
        rows(db, "RESET statement_timeout")
    assert drawn(db, photo(), BOXES).shape == (150, 200, 3)


def _huge() -> bytes:
    """Return the header of a PNG of 10 gigapixels."""
    return b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + (100000).to_bytes(4, "big") * 2 + b"\x08\x02\0\0\0" + bytes(30)
