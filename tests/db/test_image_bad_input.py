"""What is no image, or too large an image: one clear sentence, or NULL where on_error says so."""

from __future__ import annotations

import struct
import zlib

import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

GOOD = tiny_models.file(tiny_models.picture(200, 30, 10, size=(64, 48)))
JPEG = tiny_models.file(tiny_models.picture(200, 30, 10, size=(64, 48)), "JPEG")


def _huge_png() -> bytes:
    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", 60000, 60000, 8, 2, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n"
        + chunk(b"IHDR", header)
        + chunk(b"IDAT", zlib.compress(b"\0"))
        + chunk(b"IEND", b"")
    )


BAD: dict[str, tuple[bytes, str, str]] = {
    "empty": (b"", "22P03", "0 bytes"),
    "text": (b"hello, I am no image", "22P03", "not an image"),
    "zeros": (bytes(100), "22P03", "not an image"),
    "one byte": (b"\xff", "22P03", "image"),
    "signature": (b"\x89PNG\r\n\x1a\n", "22P03", "image"),
    "cut PNG": (GOOD[: len(GOOD) // 2], "22P03", "PNG"),
    "cut JPEG": (JPEG[: len(JPEG) // 2], "22P03", "JPEG"),
    "JPEG header": (JPEG[:20], "22P03", "image"),
    "PDF": (b"%PDF-1.7\n" + bytes(50), "22P03", "not an image"),
    "SVG": (b"<svg xmlns='http://www.w3.org/2000/svg'/>", "22P03", "not an image"),
    "60000 x 60000": (_huge_png(), "54000", "60000"),
}


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    deploy(tiny_models.red_mask(folder), dsn=dsn)


def test_an_error_with_its_parts(db: Connection, subtests: pytest.Subtests) -> None:
    for kind, (data, sqlstate, word) in BAD.items():
        with subtests.test(kind=kind):
            diag = refused(db, sqlstate, "SELECT dbinfer.predict(%s)", data)
            assert word in (diag.message_primary or "")
            assert "\n" not in (diag.message_primary or "")
            assert "Traceback" not in (diag.message_detail or "")
            assert diag.message_detail
            assert ask(db, "SELECT dbinfer.predict(%s)", GOOD) == pytest.approx([200, 30, 10])


def test_null_where_on_error_says_so(db: Connection, subtests: pytest.Subtests) -> None:
    for kind in BAD:
        with subtests.test(kind=kind):
            data = BAD[kind][0]
            found = rows(
                db,
                "SELECT dbinfer.predict(b, 'colours', 'null'), dbinfer.predict_tensor(b, 'colours', 'null'), "
                "dbinfer.classify(b, 'colours', 'null'), dbinfer.classify_top(b, 2, 'colours', 'null'), "
                "dbinfer.segment(b, 'redness', 'null') FROM (SELECT %s::bytea b) x",
                data,
            )
            assert found == [(None,) * 5]


def test_good_rows_among_bad_ones_get_their_results(db: Connection) -> None:
    images: list[bytes | None] = [GOOD, *(data for data, _, _ in BAD.values()), None, JPEG]
    make_images(db, "mixed", images, copies=3)
    query = "SELECT id %% {n}, (dbinfer.classify(img, 'colours', 'null')).label FROM public.mixed".replace(
        "%%", "%"
    ).format(n=len(images))
    labels = {(place, label) for place, label in rows(db, query)}
    expected = {(place, "red" if place in (0, len(images) - 1) else None) for place in range(len(images))}
    assert labels == expected
    refused(db, "22P03", "SELECT dbinfer.classify(img) FROM public.mixed WHERE id < 4")


def test_the_first_row_of_a_session_may_be_a_bad_one(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.predict('', 'colours', 'null')") is None
    refused(db, "22P03", "SELECT dbinfer.predict('')")
    assert ask(db, "SELECT dbinfer.predict(%s)", GOOD) == pytest.approx([200, 30, 10])


def test_one_pixel(db: Connection) -> None:
    dot = tiny_models.file(tiny_models.picture(9, 200, 3, size=(1, 1)))
    assert ask(db, "SELECT dbinfer.predict(%s)", dot) == pytest.approx([9, 200, 3])
    mask = tiny_models.pixels(ask(db, "SELECT dbinfer.segment(%s, 'redness')", dot))
    assert mask.shape == (1, 1)


def test_extreme_proportions(db: Connection) -> None:
    for size in ((1, 500), (500, 1), (3000, 2)):
        line = tiny_models.file(tiny_models.picture(200, 30, 10, size=size))
        assert ask(db, "SELECT dbinfer.predict(%s)", line) == pytest.approx([200, 30, 10])
        mask = tiny_models.pixels(ask(db, "SELECT dbinfer.segment(%s, 'redness')", line))
        assert mask.shape == (size[1], size[0])
        assert (mask == 255).all()


def test_the_limits_are_settings(db: Connection) -> None:
    for name, value, word in (("max_image_bytes", "100", "bytes"), ("max_image_pixels", "1000", "pixels")):
        rows(db, "SELECT dbinfer_private.set_setting(%s, %s)", name, value)
        try:
            diag = refused(db, "54000", "SELECT dbinfer.predict(%s)", JPEG)
            assert word in (diag.message_primary or "")
            assert ask(db, "SELECT dbinfer.predict(%s, 'colours', 'null')", JPEG) is None
        finally:
            rows(db, "DELETE FROM dbinfer_private.setting WHERE name = %s", name)
    assert len(ask(db, "SELECT dbinfer.predict(%s)", JPEG)) == 3


def test_image_info_of_what_is_no_image(db: Connection) -> None:
    assert refused(db, "22P03", "SELECT dbinfer.image_info('')").message_hint
    refused(db, "22P03", "SELECT dbinfer.image_info('text')")
    assert ask(db, "SELECT (dbinfer.image_info(%s)).width", _huge_png()) == 60000
