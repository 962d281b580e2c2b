"""Images larger than a network, in SQL: tiles as rows."""

from __future__ import annotations

import numpy as np
import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)


def halves(kind: str = "PNG") -> bytes:
    """Return 80 x 40 pixels, red on the left and blue on the right."""
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, :40], pixels[:, 40:] = (200, 0, 0), (0, 0, 200)
    return tiny_models.file(pixels, kind)


@pytest.mark.parametrize("plan", PLANS)
def test_tiles_are_images_that_compose(db: Connection, plan: str) -> None:
    make_images(db, "photos", [halves(), None, halves("TIFF")], copies=5)
    planned_as(db, plan)
    found = rows(
        db,
        "SELECT t.x, t.y, min(c.label), count(*) FROM public.photos, dbinfer.tiles(img, 32, 8) t,"
        " dbinfer.classify(t.tile, 'colours') c GROUP BY 1, 2 ORDER BY 2, 1",
    )
    columns = ((0, "red"), (24, "red"), (48, "blue"))
    assert found == [(x, y, label, 10) for y in (0, 8) for x, label in columns]
    # without loss, so that they are the image again
    part = ask(db, "SELECT tile FROM dbinfer.tiles(%s, 32, 8) t WHERE t.x = 24 AND t.y = 0", halves())
    assert (tiny_models.pixels(part) == tiny_models.pixels(halves())[:32, 24:56]).all()


def test_what_is_no_image_or_no_tile_is_one_error(db: Connection) -> None:
    diag = refused(db, "22P03", "SELECT * FROM dbinfer.tiles('no image at all, but text')")
    assert "not an image" in (diag.message_primary or "")
    diag = refused(db, "22023", "SELECT * FROM dbinfer.tiles(%s, 0)", halves())
    assert diag.message_primary == "dbinfer: size is 0, but must be from 1 to 16384 pixels"
    diag = refused(db, "22023", "SELECT * FROM dbinfer.tiles(%s, 32, 17)", halves())
    assert diag.message_primary == "dbinfer: overlap is 17, but must be from 0 to half a tile, 16 pixels"
    assert ask(db, "SELECT count(*) FROM dbinfer.tiles(NULL)") == 0
