"""A slide of pathology: 1.6 gigapixels in a TIFF go through a network in a backend of less than 500 MB.

LONG=1 takes the whole slide, 40,000 x 40,000, and else a small one; -s shows how long it took.
"""

from __future__ import annotations

import os
import re
import struct
from contextlib import closing
from pathlib import Path
from time import perf_counter

import cv2
import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection
from servers import allowed
from tiled_tiffs import JPEG, tiled

from dbinfer.models import deploy

pytestmark = [pytest.mark.wide, pytest.mark.timeout(3600)]

LONG = bool(os.environ.get("LONG"))
WHOLE = 40_000 if LONG else 6_000
SIDE = 512
MOST = 500_000_000  # bytes


def slide(size: int, glass_from: float = 1 / 3) -> bytes:
    """Return a TIFF of JPEG tiles that all differ, and blank glass so many sides away from the middle."""
    random = np.random.default_rng(1)
    cells = cv2.GaussianBlur(random.integers(0, 256, (2048, 2048, 3), np.uint8), (0, 0), 6)
    cells = cv2.normalize(cells, None, 60, 250, cv2.NORM_MINMAX)
    glass = np.full((SIDE, SIDE, 3), 245, np.uint8)

    def pixels(x: int, y: int) -> np.ndarray:
        if np.hypot(x - size / 2, y - size / 2) > size * glass_from:
            return glass
        left, top = random.integers(0, 2048 - SIDE, 2)
        return cells[top : top + SIDE, left : left + SIDE]

    return tiled((size, size), pixels, SIDE, JPEG)


@pytest.fixture(scope="module")
def slides(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dsn of a database with the slide, and a small one, in a table."""
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.textures(folder, size=(SIDE, SIDE)), dsn=dsn)
    deploy(tiny_models.red_mask(folder, side=SIDE), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection, connection:
        rows(connection, "CREATE TABLE public.slides (id integer, img bytea)")
        rows(connection, "ALTER TABLE public.slides ALTER img SET STORAGE EXTERNAL")
        small = 8_000 if LONG else 2_000
        for number, file in enumerate((slide(WHOLE), slide(small, glass_from=1), slide(small))):
            rows(connection, "INSERT INTO public.slides VALUES (%s, %s)", number, file)
    return dsn


def peak(db: Connection) -> int:
    """Return the most bytes that the session's process ever had in memory."""
    status = Path(f"/proc/{ask(db, 'SELECT pg_backend_pid()')}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return 1024 * int(found[1])


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_a_slide_goes_through_a_network_in_500_mb(slides: str, isolation: str) -> None:
    with closing(psycopg2.connect(slides)) as db:
        db.autocommit = True
        rows(db, "SELECT dbinfer.set_isolation('redness', %s)", allowed(isolation))
        began = perf_counter()
        query = "SELECT octet_length(m), substr(m, 17, 8), octet_length(img) FROM (SELECT img,"
        query += (
            " dbinfer.segment(img, 'redness', tile => true) AS m FROM public.slides WHERE id = 0 OFFSET 0) s"
        )
        ((size, sides, file),) = rows(db, query)
        seconds, memory = perf_counter() - began, peak(db)
        tiles = ask(db, "SELECT count(*) FROM public.slides, dbinfer.tiles(img, 512, 128) WHERE id = 0")
    print(
        f"\n{isolation}: {WHOLE} x {WHOLE}, {file / 1e6:.1f} MB, mask {size / 1e6:.1f} MB, {seconds:.1f} s, "
        f"{tiles} tiles, {tiles / seconds:.1f} tiles/s, peak of the backend {memory / 1e6:.0f} MB"
    )
    assert struct.unpack(">II", sides) == (WHOLE, WHOLE)
    assert memory < MOST


@pytest.mark.parametrize("isolation", ["never", "auto", "always"])
@pytest.mark.parametrize("number", [1, 2], ids=["tissue", "glass"])
def test_a_slide_is_as_fast_as_its_tiles(slides: str, number: int, isolation: str) -> None:
    """Shown with -s, and not asserted. Equal tiles cost no inference either way, so much glass compares the reading."""
    with closing(psycopg2.connect(slides)) as db:
        db.autocommit = True
        parts = f"SELECT t.tile FROM public.slides, dbinfer.tiles(img, 512, 128) t WHERE id = {number}"
        rows(db, f"CREATE TEMP TABLE parts AS {parts}")
        count = ask(db, "SELECT count(*) FROM parts")
        queries = {
            "rows": "SELECT count(dbinfer.segment(tile, 'textures')) FROM parts",
            "whole": "SELECT count(dbinfer.segment(img, 'textures', tile => true)) FROM public.slides"
            f" WHERE id = {number}",
        }
        rows(db, "SELECT dbinfer.set_isolation('textures', %s)", allowed(isolation))
        best = dict.fromkeys(queries, float("inf"))
        for name, query in [*queries.items()] * 3:
            began = perf_counter()
            assert ask(db, query) > 0
            best[name] = min(best[name], perf_counter() - began)
        as_rows, as_whole = (count / seconds for seconds in best.values())
        print(
            f"\n{isolation}: {count} tiles, {as_rows:.1f}/s as rows, {as_whole:.1f}/s as one image: "
            f"{as_whole / as_rows:.3f}"
        )
