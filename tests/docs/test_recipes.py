"""The recipes of docs/how-to/score-a-table.md: a bar with tqdm and with rich, and the results as a DataFrame."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import deploy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "score-a-table.md"
RECIPES = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
IMAGES = 120


def recipe(word: str) -> str:
    """Return the one recipe with a word in it."""
    (found,) = (text for text in RECIPES if word in text)
    return found


@pytest.fixture(scope="module")
def scored(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dsn of a database with a model, to which the recipes' connections go."""
    deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
    return dsn


@pytest.fixture
def db(scored: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Connection]:
    monkeypatch.setenv("DBINFER_DSN", scored)
    with closing(psycopg2.connect(scored)) as connection:
        connection.autocommit = True
        make_images(connection, "images", [tiny_models.file(tiny_models.picture(200, 0, 0))], copies=IMAGES)
        yield connection
        rows(connection, "DROP TABLE IF EXISTS predictions, predictions_errors, images")


def stored(db: Connection) -> int:
    return int(ask(db, "SELECT count(*) FROM predictions"))


@pytest.mark.wide
def test_a_bar_of_tqdm(db: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    exec(recipe("tqdm"), {})
    assert stored(db) == IMAGES
    printed = capsys.readouterr()
    # the bar knew how many there are
    assert f"{IMAGES}/{IMAGES}" in printed.err
    assert f"rows={IMAGES}" in printed.out


def test_a_bar_of_rich(db: Connection, capsys: pytest.CaptureFixture[str]) -> None:
    exec(recipe("rich.progress"), {})
    assert stored(db) == IMAGES
    assert "100%" in capsys.readouterr().out


def test_results_as_a_data_frame_in_two_lines(db: Connection) -> None:
    exec(recipe("tqdm"), {})
    text = recipe("pandas")
    assert len([line for line in text.splitlines() if line and not line.startswith("import")]) == 2
    names: dict[str, Any] = {}
    exec(text, names)
    frame = names["frame"]
    assert len(frame) == IMAGES
    assert {"id", "model", "version", "class", "label", "score", "scored_at"} <= set(frame.columns)
    assert set(frame["label"]) == {ask(db, "SELECT min(label) FROM predictions")}
    names["engine"].dispose()
