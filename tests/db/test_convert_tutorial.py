"""The network of Keras' tutorial (augmentation, Rescaling, raw scores, no labels) goes to SQL without an option."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

PROGRAM = Path(sys.executable).with_name("dbinfer")
HEIGHT, WIDTH, IMAGES = 40, 56, 10
if importlib.util.find_spec("tensorflow") is None:
    pytest.skip("needs TensorFlow: pip install dbinfer[convert]", allow_module_level=True)


def _run(*words: object, dsn: str = "") -> str:
    env = {**os.environ, "COLUMNS": "300", "DBINFER_DSN": dsn}
    done = subprocess.run([*map(str, words)], capture_output=True, text=True, check=False, env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def _pictures(folder: Path) -> list[Path]:
    """Write pictures of the network's size, so that no resize stands between Keras and SQL."""
    random = np.random.default_rng(3)
    folder.mkdir()
    for number in range(IMAGES):
        colour = random.integers(0, 256, 3)
        pixels = np.clip(colour + random.integers(-60, 60, (HEIGHT, WIDTH, 3)), 0, 255).astype(np.uint8)
        (folder / f"{number}.png").write_bytes(tiny_models.file(pixels))
    return sorted(folder.glob("*.png"))


@pytest.mark.wide
def test_from_the_tutorial_to_sql(db: Connection, dsn: str, tmp_path: Path) -> None:
    pictures = _pictures(tmp_path / "pictures")
    script = Path(__file__).with_name("keras_tutorial.py")
    said = _run(sys.executable, script, tmp_path, tmp_path / "pictures")
    assert f"flowers: classification, {HEIGHT}x{WIDTH} RGB" in said
    assert "Dropout, RandomFlip, RandomRotation, RandomZoom: they work in training alone" in said
    assert "0..255: the network scales them itself" in said
    assert "labels      none: " in said

    said = _run(PROGRAM, "deploy", tmp_path / "flowers.xml", dsn=dsn)
    assert "labels: none for the 5 classes" in said
    assert "--labels" in said
    assert ask(db, "SELECT input FROM dbinfer.models WHERE name = 'flowers'") == f"{HEIGHT}x{WIDTH}x3"
    make_images(db, "flower_images", [picture.read_bytes() for picture in pictures])
    expected = np.array(json.loads((tmp_path / "scores.json").read_text()))
    assert np.ptp(expected, axis=0).max() > 0.01, "equal answers for all images would prove nothing"
    query = "SELECT (c).class, (c).label, (c).score FROM (SELECT id, dbinfer.classify(img, '{}') AS c "
    query += "FROM public.flower_images OFFSET 0) s ORDER BY id"
    for (winner, label, score), scores in zip(rows(db, query.format("flowers")), expected, strict=True):
        assert (winner, label) == (scores.argmax(), None)
        assert score == pytest.approx(scores.max(), abs=1e-5)

    names = ["daisy", "dandelion", "roses", "sunflowers", "tulips"]
    said = _run(PROGRAM, "deploy", tmp_path / "flowers.xml", "--labels", ",".join(names), dsn=dsn)
    assert "labels:" not in said
    assert [row[1] for row in rows(db, query.format("flowers"))] == [
        names[n] for n in expected.argmax(axis=1)
    ]
