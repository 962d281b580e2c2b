"""What the functions return equals what is computed without the database."""

from __future__ import annotations

from pathlib import Path

import cv2
import numpy as np
import pytest
import tiny_models
from asking import ask, make_images, rows
from float32 import tolerance
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy
from dbinfer.models.ir import import_openvino

RED = tiny_models.picture(200, 30, 10)
# of the network `conv`: four sums, the longest of 3 * 3 * 16 terms, of grey levels to 255; then softmax
ROUNDING = tolerance(255.0, 4, 3 * 3 * 16)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    for write in (
        tiny_models.colour_classifier,
        tiny_models.red_mask,
        tiny_models.colour_embedding,
        tiny_models.gaps,
        tiny_models.convolution,
    ):
        deploy(write(folder), dsn=dsn)
    return folder


def test_predict_is_the_first_output(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.predict(%s)", tiny_models.file(RED)) == pytest.approx([200, 30, 10])


def test_predict_tensor_is_the_same_in_little_endian(db: Connection) -> None:
    data = ask(db, "SELECT dbinfer.predict_tensor(%s, 'colours')", tiny_models.file(RED))
    assert np.frombuffer(data, "<f4") == pytest.approx([200, 30, 10])


def test_classify_gives_class_label_and_score(db: Connection) -> None:
    query = "SELECT (c).class, (c).label, (c).score FROM (SELECT dbinfer.classify(%s, 'colours') c) x"
    assert rows(db, query, tiny_models.file(tiny_models.picture(3, 9, 250))) == [(2, "blue", 250.0)]


def test_classify_top_gives_the_best_first(db: Connection) -> None:
    query = "SELECT t.class, t.label, t.score FROM unnest(dbinfer.classify_top(%s, %s, 'colours')) t"
    image = tiny_models.file(RED)
    assert rows(db, query, image, 2) == [(0, "red", 200.0), (1, "green", 30.0)]
    assert [row[0] for row in rows(db, query, image, 99)] == [0, 1, 2]


def test_segment_gives_a_mask_in_the_size_of_the_image(db: Connection) -> None:
    image = tiny_models.picture(0, 0, 0, size=(80, 40))
    image[:, 40:] = (250, 0, 0)
    mask = tiny_models.pixels(ask(db, "SELECT dbinfer.segment(%s, 'redness')", tiny_models.file(image)))
    assert mask.shape == (40, 80)
    assert set(np.unique(mask)) == {0, 255}
    assert (mask[:, :35] == 0).all()
    assert (mask[:, 45:] == 255).all()


def test_embed_has_length_one_where_the_manifest_says_so(db: Connection) -> None:
    vector = np.array(ask(db, "SELECT dbinfer.embed(%s, 'vector')", tiny_models.file(RED)))
    expected = np.array([200, 30, 10]) / np.linalg.norm([200, 30, 10])
    assert vector == pytest.approx(expected, abs=tolerance(1.0, 4))  # a sum of squares, a root, a quotient


def test_nan_and_infinity_arrive(db: Connection) -> None:
    query = "SELECT dbinfer.predict(%s, 'gaps')::text"
    assert ask(db, query, tiny_models.file(RED)) == "{NaN,Infinity,-Infinity}"


def test_profile_counts_every_step(db: Connection) -> None:
    facts = ask(db, "SELECT dbinfer.profile(%s, 'colours')", tiny_models.file(RED))
    assert set(facts["microseconds"]) == {"decode", "preprocess", "infer", "postprocess", "total"}
    assert all(value > 0 for value in facts["microseconds"].values())
    assert facts["model"] == "colours@1"


def test_null_in_gives_null_out(db: Connection) -> None:
    calls = {
        "predict": "'colours'",
        "predict_tensor": "'colours'",
        "classify": "'colours'",
        "classify_top": "2, 'colours'",
        "segment": "'redness'",
        "embed": "'vector'",
        "profile": "'colours'",
    }
    for name, values in calls.items():
        assert ask(db, f"SELECT dbinfer.{name}(NULL, {values}) IS NULL") is True, name
    assert ask(db, "SELECT dbinfer.image_info(NULL) IS NULL") is True


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "GIF"])
def test_lossless_formats_give_the_pixels_exactly(db: Connection, kind: str) -> None:
    data = tiny_models.file(RED, kind)
    assert ask(db, "SELECT dbinfer.predict(%s, 'colours')", data) == pytest.approx([200, 30, 10])
    assert ask(db, "SELECT (dbinfer.image_info(%s)).format", data) == kind


@pytest.mark.parametrize("kind", ["JPEG", "WebP"])
def test_lossy_formats_give_nearly_the_pixels(db: Connection, kind: str) -> None:
    data = tiny_models.file(RED, kind)
    assert ask(db, "SELECT dbinfer.predict(%s, 'colours')", data) == pytest.approx([200, 30, 10], abs=6)
    facts = rows(
        db, "SELECT (i).format, (i).width, (i).height FROM (SELECT dbinfer.image_info(%s) i) x", data
    )
    assert facts == [(kind, 8, 8)]


def test_gray_alpha_and_sixteen_bits(db: Connection) -> None:
    gray = np.full((8, 8), 90, np.uint8)
    alpha = np.dstack([tiny_models.picture(10, 20, 30), np.full((8, 8), 255, np.uint8)])
    deep = np.full((8, 8), 90 * 257, np.uint16)
    query = "SELECT dbinfer.predict(%s, 'colours')"
    assert ask(db, query, tiny_models.file(gray)) == pytest.approx([90, 90, 90])
    assert ask(db, query, tiny_models.file(alpha)) == pytest.approx([10, 20, 30])
    assert ask(db, query, tiny_models.file(deep)) == pytest.approx([90, 90, 90])


def test_a_network_equals_openvino_alone(db: Connection, models: Path) -> None:
    random = np.random.default_rng(1)
    images = [random.integers(0, 256, (32, 32, 3), dtype=np.uint8) for _ in range(5)]
    make_images(db, "noise", [tiny_models.file(image) for image in images])
    compiled = (
        import_openvino()
        .Core()
        .compile_model(models / "conv.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    )
    for place, found in rows(db, "SELECT id, dbinfer.predict(img, 'conv') FROM noise"):
        expected = compiled(images[place][None].astype(np.float32))[0].ravel()
        assert np.abs(np.array(found) - expected).max() <= ROUNDING


def test_an_image_of_another_size_is_resized_as_opencv_does(db: Connection, models: Path) -> None:
    random = np.random.default_rng(2)
    image = cv2.GaussianBlur(random.integers(0, 256, (100, 150, 3), dtype=np.uint8), (0, 0), 3)
    small = cv2.resize(image, (32, 32), interpolation=cv2.INTER_AREA)
    compiled = (
        import_openvino()
        .Core()
        .compile_model(models / "conv.xml", "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    )
    expected = compiled(small[None].astype(np.float32))[0].ravel()
    found = ask(db, "SELECT dbinfer.predict(%s, 'conv')", tiny_models.file(image))
    assert np.abs(np.array(found) - expected).max() <= ROUNDING


def test_two_models_and_their_aliases_in_one_row(db: Connection) -> None:
    query = (
        "SELECT (dbinfer.classify(%s, 'colours')).label, dbinfer.embed(%s, 'vector@1'), dbinfer.predict(%s)"
    )
    label, vector, raw = rows(db, query, *[tiny_models.file(RED)] * 3)[0]
    assert (label, len(vector), len(raw)) == ("red", 3, 3)
