"""Images larger than a network, in SQL: tiles as rows, and segment and detect tile by tile, wherever networks run."""

from __future__ import annotations

import signal
import struct
import time
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from engine_processes import below, busy, kill, meanwhile, sockets, title, until, workers
from psycopg2.extensions import connection as Connection
from servers import allowed
from tiled_tiffs import tiled
from variants import wide

from dbinfer.models import deploy
from dbinfer.score import ScoreOptions, score
from dbinfer_udf.engine.worker import CLIENT_SECONDS
from dbinfer_udf.manifest import ManifestError


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    deploy(tiny_models.textures(folder), dsn=dsn)
    deploy(tiny_models.textures(folder, "onepass", (256, 192)), dsn=dsn)
    deploy(tiny_models.textures(folder, "bytiles", tile=True), dsn=dsn)
    deploy(tiny_models.red_box(folder, side=64), dsn=dsn)
    deploy(tiny_models.red_box(folder, "spots", 64, tile=True, tile_overlap=0.5), dsn=dsn)


def halves(kind: str = "PNG") -> bytes:
    """Return 80 x 40 pixels, red on the left and blue on the right."""
    pixels = np.zeros((40, 80, 3), np.uint8)
    pixels[:, :40], pixels[:, 40:] = (200, 0, 0), (0, 0, 200)
    return tiny_models.file(pixels, kind)


def scene(width: int = 256, height: int = 192) -> np.ndarray:
    """Return soft blobs of colour with noise: a mask has many small parts."""
    random = np.random.default_rng(2)
    return random.integers(0, 256, (height, width, 3), np.uint8)


def mask(db: Connection, img: bytes, model: str, tile: bool | None = None) -> np.ndarray:
    return tiny_models.pixels(ask(db, "SELECT dbinfer.segment(%s, %s, tile => %s)", img, model, tile))


@pytest.fixture(params=["never", *wide("always")])
def isolation(request: pytest.FixtureRequest, db: Connection) -> str:
    """Where networks run: in the backend, in the engine."""
    for model in ("textures", "bytiles", "redbox", "spots"):
        rows(db, "SELECT dbinfer.set_isolation(%s, %s)", model, allowed(request.param))
    return str(request.param)


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


def test_a_mask_by_tiles_is_that_of_one_pass(
    db: Connection, isolation: str, subtests: pytest.Subtests
) -> None:
    png = tiny_models.file(scene())
    whole = mask(db, png, "onepass")
    assert 0.2 < (whole == 255).mean() < 0.8
    assert (mask(db, png, "textures", True) == whole).all()
    assert (mask(db, png, "bytiles") == whole).all()
    # without tiles the image is shrunk
    assert (mask(db, png, "textures") != whole).any()
    assert (mask(db, png, "bytiles", False) == mask(db, png, "textures")).all()
    pixels = np.pad(scene(), ((0, 128), (0, 128), (0, 0)))
    tiff = tiled((256, 192), lambda x, y: pixels[y : y + 128, x : x + 128])
    assert (mask(db, tiff, "bytiles") == whole).all()


@pytest.mark.postgres_only("kills processes of the host it runs on")
def test_an_engine_that_is_gone_costs_no_tile(db: Connection) -> None:
    rows(db, "SELECT dbinfer.set_isolation('bytiles', 'always')")
    png = tiny_models.file(scene())
    whole = mask(db, png, "bytiles")
    backend = ask(db, "SELECT pg_backend_pid()")
    engines = [pid for (pid,) in rows(db, "SELECT pid FROM dbinfer.engines WHERE problem IS NULL")]
    (engine,) = (pid for pid in engines if workers(pid, "bytiles"))
    for pid in below(engine):
        kill(pid, signal.SIGSTOP)

    asked = sockets(backend)

    def act() -> None:
        # the first tile is asked for, and the second one is read meanwhile
        until(lambda: sockets(backend) > asked and not busy(backend), "the backend waits for a tile")
        for pid in below(engine):
            kill(pid)

    with meanwhile(act):
        assert (mask(db, png, "bytiles") == whole).all()
    until(lambda: not title(engine), "the old engine is gone")


@pytest.mark.wide
@pytest.mark.postgres_only("stops a process of the host it runs on")
def test_a_worker_need_not_wait_for_a_slow_decoder(db: Connection, dsn: str, tmp_path: Path) -> None:
    # its mask is larger than what a socket holds, so the worker gives up before it is read
    deploy(tiny_models.textures(tmp_path, "large", (512, 512), tile=True), dsn=dsn)
    rows(db, "SELECT dbinfer.set_isolation('large', 'always')")
    png = tiny_models.file(scene(3000, 2000))
    whole = mask(db, png, "large")
    backend = ask(db, "SELECT pg_backend_pid()")
    asked = sockets(backend)

    def act() -> None:
        until(lambda: sockets(backend) > asked, "the backend waits for a tile")
        (decoder,) = below(backend)[1:]
        kill(decoder, signal.SIGSTOP)
        # longer than the worker waits for who does not read the rest of its answer: what fits the socket goes first
        time.sleep(2 * struct.unpack("@ll", CLIENT_SECONDS)[0] + 1)
        kill(decoder, signal.SIGCONT)

    with meanwhile(act):
        assert (mask(db, png, "large") == whole).all()


def test_sizes_that_tiles_do_not_fill(db: Connection) -> None:
    whole = mask(db, tiny_models.file(scene()), "onepass")
    for width, height in ((250, 181), (256, 20), (33, 192), (9, 8)):
        found = mask(db, tiny_models.file(scene()[:height, :width]), "bytiles")
        assert found.shape == (height, width)
        # the network sees 6 pixels further
        inner = slice(height - 6), slice(width - 6)
        assert (found[inner] == whole[inner]).all()


def test_objects_by_tiles(db: Connection, isolation: str) -> None:
    pixels = np.zeros((200, 400, 3), np.uint8)
    for left, top, right, bottom in ((10, 10, 30, 30), (120, 20, 140, 180), (350, 150, 400, 200)):
        pixels[top:bottom, left:right, 0] = 255
    png = tiny_models.file(pixels)
    query = "SELECT d.label, d.x, d.y, d.width, d.height FROM unnest(dbinfer.detect(%s, %s, tile => %s)) d ORDER BY d.x"
    found = [("thing", 10, 10, 20, 20), ("thing", 120, 20, 20, 160), ("thing", 350, 150, 50, 50)]
    assert rows(db, query, png, "redbox", True) == rows(db, query, png, "spots", None) == found
    assert len(rows(db, query, png, "spots", False)) == 1
    assert rows(db, query, tiny_models.file(np.zeros((200, 400, 3), np.uint8)), "spots", None) == []


def test_whole_tables_and_columns_follow_the_manifest(db: Connection, isolation: str) -> None:
    make_images(db, "slides", [tiny_models.file(scene()), b"no image at all, but text", None])
    # first, in a process that has decoded nothing
    found = rows(
        db, "SELECT id, mask FROM dbinfer.segment_table('slides', 'bytiles', on_error => 'null') ORDER BY 1"
    )
    whole = mask(db, tiny_models.file(scene()), "bytiles")
    assert (tiny_models.pixels(found[0][1]) == whole).all()
    assert found[1:] == [(1, None), (2, None)]
    diag = refused(db, "22P03", "SELECT * FROM dbinfer.segment_table('slides', 'bytiles')")
    assert (diag.message_primary or "").startswith("dbinfer: row 1: not an image")
    reason = "SELECT dbinfer.problem(img, 'bytiles') FROM public.slides WHERE id = 1"
    assert "not an image" in ask(db, reason)


@pytest.mark.wide
def test_a_job_follows_the_manifest(db: Connection, dsn: str) -> None:
    make_images(db, "slides", [tiny_models.file(scene()), b"no image at all, but text"])
    done = score("public.slides", "public.masks", ScoreOptions(model="bytiles"), dsn)
    assert (done.rows, done.errors) == (1, 1)
    found = tiny_models.pixels(ask(db, "SELECT mask FROM public.masks"))
    assert (found == mask(db, tiny_models.file(scene()), "onepass")).all()


def test_bad_calls_are_one_sentence(db: Connection, isolation: str) -> None:
    png = tiny_models.file(scene())
    diag = refused(db, "22023", "SELECT dbinfer.segment(%s, 'redbox', tile => true)", png)
    assert (
        diag.message_primary == 'dbinfer: model "redbox" is for detection, but segment() needs segmentation'
    )
    assert ask(db, "SELECT dbinfer.segment(%s, 'textures', 'null', true) IS NULL", png[:-30]) is True
    diag = refused(db, "22P03", "SELECT dbinfer.segment(%s, 'textures', tile => true)", png[:-30])
    assert "the PNG image is cut off" in (diag.message_primary or "")
    rows(db, "SELECT dbinfer.set_setting('max_image_segments', '10')")
    try:
        diag = refused(db, "54000", "SELECT dbinfer.detect(%s, 'redbox', tile => true)", png)
    finally:
        rows(db, "DELETE FROM dbinfer_private.setting WHERE name = 'max_image_segments'")
    assert "more than 10 tiles" in (diag.message_primary or "")


def test_always_is_a_promise_that_no_backend_decodes(db: Connection) -> None:
    rows(db, "BEGIN; SELECT dbinfer_private.set_setting('isolation', 'always')")
    try:
        found = mask(db, tiny_models.file(scene()), "bytiles")
    finally:
        rows(db, "ROLLBACK")
    assert (found == mask(db, tiny_models.file(scene()), "onepass")).all()


def test_a_manifest_whose_task_knows_no_tiles_is_refused() -> None:
    with pytest.raises(ManifestError, match="tile is true, but classification looks at images as a whole"):
        tiny_models.manifest("classification", tile=True)
    with pytest.raises(ManifestError, match=r"tile_overlap is 0\.75, but must be 0 to 0\.5"):
        tiny_models.manifest("detection", tile_overlap=0.75)
    assert {"tile", "tile_overlap"}.isdisjoint(tiny_models.manifest("detection").to_dict())
