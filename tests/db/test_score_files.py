"""predict: local files sent to the database's functions, from Python and on the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import tiny_models

from dbinfer.base.errors import DataError, UsageError
from dbinfer.models import deploy
from dbinfer.score import PredictOptions, predict


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for write in (tiny_models.colour_classifier, tiny_models.red_mask, tiny_models.colour_embedding):
        deploy(write(folder), dsn=dsn)


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    for name, colour in (("red", (200, 0, 0)), ("blue", (0, 0, 100))):
        (tmp_path / f"{name}.png").write_bytes(tiny_models.file(tiny_models.picture(*colour)))
    return [tmp_path / "red.png", tmp_path / "blue.png"]


def values(files: list[Path], dsn: str, **options: Any) -> list[Any]:
    return [answer.value for answer in predict(files, PredictOptions(**options), dsn).answers]


@pytest.mark.wide
def test_each_kind_of_result(dsn: str, files: list[Path]) -> None:
    first, second = values(files, dsn)
    assert first == {"class": 0, "label": "red", "score": 200}
    assert second == {"class": 2, "label": "blue", "score": 100}
    assert values(files, dsn, function="predict", model="colours") == [[200, 0, 0], [0, 0, 100]]
    top = values(files[:1], dsn, function="classify_top", model="colours", top=2)[0]
    assert [row["score"] for row in top] == [200, 0]
    assert values(files[:1], dsn, function="image_info")[0]["width"] == tiny_models.SIDE
    mask = values(files[:1], dsn, model="redness")[0]
    assert (tiny_models.pixels(mask) == 255).all()


def test_bad_files_do_not_stop_the_others(dsn: str, files: list[Path], tmp_path: Path) -> None:
    (tmp_path / "text.png").write_text("no image")
    (tmp_path / "cut.png").write_bytes(files[0].read_bytes()[:40])
    asked = [tmp_path / "text.png", tmp_path / "cut.png", tmp_path / "gone.png", files[0]]
    answers = predict(asked, dsn=dsn).answers
    assert [bool(answer.error) for answer in answers] == [True, True, True, False]
    assert [answer.file for answer in answers] == asked


@pytest.mark.parametrize(
    ("function", "model", "error"),
    [
        (None, "unknown", DataError),
        (None, "colours@99", DataError),
        ("segment", "colours", DataError),
        ("activate", None, UsageError),
    ],
)
def test_wrong_calls(
    dsn: str, files: list[Path], function: str | None, model: str | None, error: type[Exception]
) -> None:
    with pytest.raises(error):
        values(files, dsn, function=function, model=model)


def dbinfer(*words: object) -> subprocess.CompletedProcess[str]:
    program = [sys.executable, "-c", "from dbinfer.cli import main; main()", *map(str, words)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert "Traceback" not in done.stderr
    return done


@pytest.mark.wide
def test_the_command_prints_and_counts_failures(dsn: str, files: list[Path], tmp_path: Path) -> None:
    done = dbinfer("predict", *files, "--dsn", dsn)
    assert done.returncode == 0
    assert "label red" in done.stdout
    (tmp_path / "text.png").write_text("no image")
    done = dbinfer("predict", tmp_path / "text.png", files[0], "--json", "--dsn", dsn)
    assert done.returncode == 1
    first, second = json.loads(done.stdout)["answers"]
    assert "not an image" in first["error"]
    assert second["value"]["label"] == "red"


@pytest.mark.wide
def test_masks_need_a_folder(dsn: str, files: list[Path], tmp_path: Path) -> None:
    words = ("predict", files[0], "--model", "redness", "--dsn", dsn)
    done = dbinfer(*words)
    assert done.returncode == 2
    assert "--out" in done.stderr
    assert dbinfer(*words, "--out", tmp_path / "masks").returncode == 0
    assert (tiny_models.pixels((tmp_path / "masks" / "red.png.png").read_bytes()) == 255).all()
    done = dbinfer(*words, files[0], "--out", tmp_path / "masks")
    assert done.returncode == 2
    assert "red.png" in done.stderr


def test_score_on_the_command_line(dsn: str, files: list[Path]) -> None:
    folder = files[0].parent
    assert dbinfer("load", folder, "--table", "shots", "--dsn", dsn).returncode == 0
    words = ("score", "--table", "shots", "--predictions", "answers", "--dsn", dsn)
    done = dbinfer(*words, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["rows"] == 2
    again = dbinfer(*words, "--json")
    assert (again.returncode, json.loads(again.stdout)["rows"]) == (0, 0)
    once = dbinfer("score", "--table", "shots", "--predictions", "once", "--dsn", dsn, "--atomic")
    assert once.returncode == 0, once.stderr
    again = dbinfer("score", "--table", "shots", "--predictions", "once", "--dsn", dsn, "--atomic")
    assert again.returncode == 1
    assert "--replace" in again.stderr
    assert dbinfer(*words, "--replace", "--append").returncode == 2
    assert dbinfer(*words, "--replace").returncode == 0
