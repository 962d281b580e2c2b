"""docs/how-to/train-a-detector.md: its commands work on less data, and so do its boxes and its query."""

from __future__ import annotations

import json
import re
import shlex
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
from typer.testing import CliRunner

from dbinfer.cli.app import app
from dbinfer.images import boxes
from dbinfer.images.builtin import written
from dbinfer.train.data import find_source
from dbinfer.train.query import Snapshot

PAGE = (Path(__file__).parents[2] / "docs" / "how-to" / "train-a-detector.md").read_text(encoding="utf-8")
LESS = {"written:4000": "written:16", "--epochs 6": "--epochs 1", "--count 800": "--count 4"}


def _commands() -> list[str]:
    (block,) = re.findall(r"^```console\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    found = re.findall(r"^\$ dbinfer (.*)$", block, re.MULTILINE)
    assert all(any(word in line for line in found) for word in LESS)
    for word, instead in LESS.items():
        found = [line.replace(word, instead) for line in found]
    return found


@pytest.mark.wide
def test_the_commands_lead_from_sample_images_to_sql(
    dsn: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("tensorflow")
    monkeypatch.setenv("DBINFER_DSN", dsn)
    monkeypatch.chdir(tmp_path)
    for line in _commands():
        done = CliRunner().invoke(app, shlex.split(line))
        assert done.exit_code == 0, f"{line}\n{done.output}"
    assert "mAP" in done.output


def test_the_boxes_are_boxes() -> None:
    (line,) = re.findall(r"^    (\[\{.*\}\])$", PAGE, re.MULTILINE)
    found = boxes.unpacked(boxes.packed(json.loads(line), {"7": 0, "2": 1}, "the page"))
    assert found.shape == (2, 5)


def test_the_query_makes_lists_of_flat_rows(empty_dsn: str) -> None:
    (query,) = re.findall(r'--data "(SELECT i\..*?)"', PAGE, re.DOTALL)
    with closing(psycopg2.connect(empty_dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE images (id int, img bytea)")
        cursor.execute("CREATE TABLE marks (image int, label text, x real, y real, width real, height real)")
        for number, one in enumerate(written("train", range(3))):
            cursor.execute("INSERT INTO images VALUES (%s, %s)", (number, one.image))
            for box in one.boxes if number else []:
                cursor.execute("INSERT INTO marks VALUES (%s, %s, %s, %s, %s, %s)", (number, *box.values()))
    snapshot = Snapshot(empty_dsn)
    try:
        found = find_source(query, snapshot).open(range(3))
        counts = [len(boxes.unpacked(found.read(row)[1])) for row in range(3)]  # type: ignore[arg-type]
        assert counts == [0, *(len(one.boxes) for one in written("train", range(1, 3)))]
    finally:
        snapshot.close()
