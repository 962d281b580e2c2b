"""dbinfer.frames in SQL; and AVIF and HEIC, which no backend decodes itself."""

from __future__ import annotations

import io
from datetime import timedelta
from pathlib import Path

import numpy as np
import pillow_heif
import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from films import animation, film
from PIL import Image
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

pillow_heif.register_heif_opener()


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


def encoded(kind: str, colour: tuple[int, int, int] = (200, 30, 10)) -> bytes:
    target = io.BytesIO()
    Image.new("RGB", (64, 48), colour).save(target, kind, quality=95)
    return target.getvalue()


def test_every_second_of_films_in_a_table_is_classified(db: Connection) -> None:
    made = film("avi", "MJPG", 35, rate=10)
    make_images(db, "films", [made, None, animation("GIF", 3, duration=50)[1]])
    found = rows(
        db,
        "SELECT id, f.number, f.at, (dbinfer.classify(f.frame, 'colours')).score > 5"
        " FROM public.films, dbinfer.frames(img, every => '1 s') f ORDER BY 1, 2",
    )
    seconds = [timedelta(seconds=number) for number in range(4)]
    # of the animation, all of whose pictures are shown within a second, the first; of NULL nothing
    assert found == [*((0, n + 1, at, True) for n, at in enumerate(seconds)), (2, 1, timedelta(0), True)]
    assert ask(db, "SELECT count(*) FROM public.films, dbinfer.frames(img) f WHERE id = 0") == 35
    # beside columns, where nobody reads further than wanted
    assert rows(db, "SELECT (dbinfer.frames(%s)).number LIMIT 2", made) == [(1,), (2,)]


def test_what_is_no_film_is_one_error(db: Connection) -> None:
    diag = refused(db, "22P03", "SELECT * FROM dbinfer.frames(%s)", b"no film at all, but text")
    assert "neither an image nor a film" in (diag.message_primary or "")
    assert "FFmpeg" in (diag.message_hint or "")
    diag = refused(db, "22023", "SELECT * FROM dbinfer.frames(%s, '-1 s')", animation("GIF", 3)[1])
    assert diag.message_primary == "dbinfer: every is -1 seconds, but must be more than 0"
    rows(db, "SET statement_timeout = 200")
    try:
        with pytest.raises(psycopg2.errors.QueryCanceled):
            rows(
                db,
                "SELECT count(*) FROM generate_series(1, 1000) n, dbinfer.frames(%s || n::text::bytea)",
                film("avi", "MJPG", 35, rate=10),
            )
    finally:
        rows(db, "SET statement_timeout = 0")


def test_an_error_in_the_midst_has_its_sentence(db: Connection) -> None:
    rows(db, "SELECT dbinfer.set_setting('max_image_frames', '10')")
    try:
        diag = refused(db, "54000", "SELECT * FROM dbinfer.frames(%s)", film("avi", "MJPG", 35, rate=10))
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'max_image_frames'")
    assert "more than 10 frames" in (diag.message_detail or "")
    assert "max_image_frames" in (diag.message_hint or "")


@pytest.mark.parametrize("kind", ["AVIF", "HEIF"])
def test_pictures_of_phones_are_images_like_others(db: Connection, venv: Path, kind: str) -> None:
    img = encoded(kind)
    # hosts have it where somebody has installed it
    if kind == "HEIF" and not list(venv.glob("lib/python*/site-packages/pillow_heif")):
        for isolation in ("always", "never"):
            rows(db, "SELECT dbinfer.set_isolation('colours', %s)", isolation)
            diag = refused(db, "22P03", "SELECT dbinfer.predict(%s, 'colours')", img)
            assert "the package pillow-heif is not installed" in (diag.message_primary or "")
        return
    assert ask(db, "SELECT (dbinfer.image_info(%s)).format", img) == ("HEIC" if kind == "HEIF" else kind)
    found = {}
    for isolation in ("never", "always"):
        rows(db, "SELECT dbinfer.set_isolation('colours', %s)", isolation)
        found[isolation] = ask(db, "SELECT dbinfer.predict(%s, 'colours')", img)
        make_images(db, "photos", [img, encoded("JPEG", (10, 200, 30)), img[:200], None])
        answers = rows(
            db,
            "SELECT id, label FROM dbinfer.classify_table('photos', 'colours', on_error => 'null') ORDER BY 1",
        )
        assert answers == [(0, "red"), (1, "green"), (2, None), (3, None)]
        said = refused(db, "22P03", "SELECT dbinfer.predict(%s, 'colours')", img[:-30]).message_primary
        assert said is not None
        assert "is cut off" in said
    rows(db, "SELECT dbinfer.set_isolation('colours', 'auto')")
    assert found["never"] == found["always"] == pytest.approx([200, 30, 10], abs=3)
    drawn = tiny_models.pixels(ask(db, "SELECT dbinfer.draw(%s, '{}')", img))
    assert np.abs(drawn.astype(int) - (200, 30, 10)).max() < 6
