"""A task is added in one place: a runtime with one more entry in its table of tasks deploys and scores with it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_models
from asking import ask, make_images, refused, rows
from psycopg2.extensions import connection as Connection

import dbinfer_udf

ENTRY = """        Task(
            "lighting",
            Function("lightness", 10, "result.lightness:lightness", {"lightness": "pg_catalog.float4"}),
        ),
"""
FINISH = '''"""Tells how light an image is."""


def lightness(model, output, placement, header, k):
    """Return the mean of an output as the text of a real."""
    return "%.9g" % output.mean()
'''
SQL = """
CREATE FUNCTION dbinfer.lightness(img bytea, model text DEFAULT NULL, on_error text DEFAULT 'error')
RETURNS real LANGUAGE sql STABLE PARALLEL SAFE AS $$
SELECT dbinfer._text('lightness', img, dbinfer._resolve(model, img IS NULL), on_error, 0)::real $$
"""
IMAGES: list[bytes | None] = [tiny_models.file(tiny_models.picture(30 * n, 0, 0)) for n in range(8)]
LIGHT = [(n, 10.0 * n) for n in range(8)]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the runtime with the made-up task, in a folder for PYTHONPATH."""
    package = tmp_path_factory.mktemp("runtime") / "dbinfer_udf"
    shutil.copytree(Path(dbinfer_udf.__file__).parent, package, ignore=shutil.ignore_patterns("__pycache__"))
    table = package / "tasks.py"
    text = table.read_text()
    place = '        Task("tensor"),\n'
    assert text.count(place) == 1
    table.write_text(text.replace(place, ENTRY + place))
    (package / "result" / "lightness.py").write_text(FINISH)
    return package.parent


def client(runtime: Path, dsn: str, *words: str) -> str:
    """Run the command line with that runtime."""
    command = [sys.executable, "-m", "dbinfer", *words, "--dsn", dsn]
    environment = {**os.environ, "PYTHONPATH": str(runtime)}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def dsn(
    runtime: Path, empty_dsn: str, venv: Path, engine_dir: str, tmp_path_factory: pytest.TempPathFactory
) -> str:
    graph = tiny_models._graph(tiny_models._mean)
    ir = tiny_models._write(graph, tmp_path_factory.mktemp("irs"), "lamp", None)
    client(runtime, empty_dsn, "install", "--venv", str(venv), "--engine-dir", engine_dir)
    client(runtime, empty_dsn, "deploy", str(ir), "--task", "lighting")
    return empty_dsn


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_it_scores_in_the_backend_and_in_the_engine(db: Connection, isolation: str) -> None:
    rows(db, SQL.replace("CREATE", "CREATE OR REPLACE"))
    make_images(db, "images", IMAGES)
    ask(db, "SELECT dbinfer.set_isolation('lamp', %s)", isolation)
    assert rows(db, "SELECT id, dbinfer.lightness(img) FROM images ORDER BY id") == LIGHT
    many = "dbinfer._table('lightness', 'images', 'lamp', 'error', 'id', 'img')"
    assert rows(db, f"SELECT id, result::real FROM {many} ORDER BY id") == LIGHT
    assert ask(db, "SELECT dbinfer.profile(img) -> 'microseconds' ? 'postprocess' FROM images WHERE id = 1")
    wrong = refused(db, "22023", "SELECT dbinfer.classify(img) FROM images")
    said = 'dbinfer: model "lamp" is for lighting, but classify() needs classification'
    assert (wrong.message_primary or "").startswith(said)  # a segment adds where it is
    assert (wrong.message_hint or "").startswith("Call dbinfer.lightness or predict with this model.")


def test_the_client_knows_it(runtime: Path, db: Connection, dsn: str) -> None:
    rows(db, SQL.replace("CREATE", "CREATE OR REPLACE"))
    make_images(db, "images", IMAGES)
    client(runtime, dsn, "score")
    assert rows(db, "SELECT id, lightness FROM predictions ORDER BY id") == LIGHT
    page = client(runtime, dsn, "report", "--out", str(runtime / "page.html"))
    assert "page.html" in page
