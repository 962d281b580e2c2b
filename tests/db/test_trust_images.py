"""Damaged images through SQL: every row an answer or one clean error, and the backend lives, small as before."""

from __future__ import annotations

import figures
import hostile_images as hostile
import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from mutate import mutants
from psycopg2.extensions import connection as Connection
from seeds import FORMATS

from dbinfer.models import deploy
from dbinfer_udf.image.file import DEFAULT_LIMITS, Limits

pytestmark = pytest.mark.wide

COUNT, ALL = 40, 1000
GROWTH = 128e6  # bytes that a backend may keep of what it once took
GOOD = tiny_models.file(tiny_models.picture(200, 30, 10))
QUICK = (
    "gif of 35 bytes",
    "gif canvas",
    "bmp of 1 kB",
    "tiff tags twice",
    "tiff tile",
    "webp canvas",
    "jpeg scans",
    "png text",
)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


def _memory(db: Connection) -> float:
    return float(ask(db, "SELECT max(rss) FROM dbinfer.segments"))


@pytest.mark.timeout(3600)
@pytest.mark.parametrize("kind", FORMATS)
def test_damaged_files_in_a_table(db: Connection, kind: str) -> None:
    count = ALL if figures.long() else COUNT
    files: list[bytes | None] = [data for _, data in mutants(kind, count, 7)]
    make_images(db, "damaged", [GOOD, *files])
    assert ask(db, "SELECT dbinfer.predict(%s)", GOOD) is not None
    before = _memory(db)
    score = "dbinfer.predict(img, 'colours', 'null')"
    answers = rows(db, f"SELECT id, {score}, {score} FROM public.damaged")
    assert len(answers) == count + 1
    assert all(first == second for _, first, second in answers)
    assert {number: first for number, first, _ in answers}[0] == pytest.approx([200, 30, 10])
    assert _memory(db) - before < GROWTH
    errors = [_error(db, data) for data in files[:20] if data is not None]
    figures.record(f"damaged {kind} files through SQL", inputs=count, rows=count + 1, wrong=0, crashes=0)
    assert {error for error in errors if error} <= {"22P03", "54000"}


def _error(db: Connection, data: bytes) -> str:
    """Return the SQLSTATE that one image gives, empty for an answer."""
    try:
        ask(db, "SELECT dbinfer.predict(%s)", data)
    except psycopg2.Error as err:
        return err.pgcode or "no SQLSTATE"
    return ""


def test_a_bomb_names_the_setting(db: Connection, subtests: pytest.Subtests) -> None:
    for name in QUICK:
        with subtests.test(name=name):
            make, words, setting = hostile.BOMBS[name]
            diag = refused(db, "54000", "SELECT dbinfer.predict(%s)", make())
            assert words in (diag.message_primary or "")
            assert f"max_image_{setting}" in (diag.message_hint or "")


def test_a_limit_is_a_setting(db: Connection) -> None:
    image = hostile.many_scans(64, 64, 20)
    assert ask(db, "SELECT dbinfer.predict(%s)", image) is not None
    rows(db, "SELECT dbinfer.set_setting('max_image_scans', '19')")
    try:
        diag = refused(db, "54000", "SELECT dbinfer.predict(%s)", image)
        assert "20 scans, but the limit is 19" in (diag.message_primary or "")
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'max_image_scans'")


def test_each_limit_can_be_set_within_bounds(db: Connection) -> None:
    for field in Limits._fields:
        name = "max_image_" + field.removeprefix("max_")
        rows(db, "SELECT dbinfer.set_setting(%s, %s)", name, str(getattr(DEFAULT_LIMITS, field)))
        refused(db, "22023", "SELECT dbinfer.set_setting(%s, '9999999999')", name)
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = %s", name)


def test_image_info_reads_no_more_segments_than_allowed(db: Connection) -> None:
    """60 MB of empty segments took 13.7 seconds, which nothing could interrupt."""
    diag = refused(db, "54000", "SELECT dbinfer.image_info(%s)", hostile.jpeg_with(b"\xff\xe0\0\2" * 100_000))
    assert "more than 65536 segments" in (diag.message_primary or "")


def test_a_damaged_animation_ends_no_backend(db: Connection) -> None:
    """157 bytes ended all sessions of the server."""
    pid = ask(db, "SELECT pg_backend_pid()")
    assert ask(db, "SELECT dbinfer.predict(%s)", hostile.animated_png(damage=True)) is not None
    assert ask(db, "SELECT pg_backend_pid()") == pid
