"""docs/reference is complete and up to date: written from the code and a database, and every example in it runs."""

from __future__ import annotations

import os
import re
import sys
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, on_server, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import reference  # noqa: E402

# what the client and the registry tell backends; nobody sets these
INTERNAL = {"databases", "hosts", "runtime_digest", "stores", "workers"}
RESULTS = {
    "classes": "class integer, label text, score real",
    "objects": "detections dbinfer.detection[]",
    "embeddings": "embedding real[]",
    "outputs": '"values" real[]',
    "masks": "mask bytea",
}
VECTOR = "SELECT count(*) FROM pg_available_extensions WHERE name = 'vector'"


@pytest.mark.postgres_only("a database describes itself alike everywhere")
@pytest.mark.parametrize("name", ["sql.md", "settings.md", "manifest.md", "commands.md"])
def test_the_pages_are_up_to_date(db: Connection, name: str) -> None:
    written = (reference.FOLDER / name).read_text(encoding="utf-8")
    assert written == reference.pages(db)[name], "run make docs, and commit docs/reference"


@pytest.mark.parametrize("text", [None, "", "  "])
def test_what_says_nothing_of_itself_is_named(text: str | None) -> None:
    with pytest.raises(reference.UndescribedError, match=r"dbinfer\.predict has no description"):
        reference.described("dbinfer.predict", text)
    with pytest.raises(reference.UndescribedError, match=r"dbinfer\.predict has no example"):
        reference.example("dbinfer.predict", "an output of the model")


def test_every_setting_that_the_runtime_reads_is_on_the_page() -> None:
    sources = "\n".join(path.read_text() for path in (ROOT / "udf").rglob("*.py"))
    read = set(re.findall(r"settings(?:\.get\(|\[)\"([a-z_]+)\"", sources))
    assert {"venv", "max_models", "threads"} <= read
    known = {setting.name for setting in reference.settings()}
    assert read - INTERNAL <= known
    assert reference.highest().keys() <= known


@pytest.fixture(scope="module")
def examples_dsn(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The dsn of a database with a model for each task, two versions of digits among them."""
    folder = tmp_path_factory.mktemp("irs")
    digits = tiny_models.colour_classifier(folder, "digits")
    deploy(digits, DeployOptions(alias="candidate"), dsn)
    for name in ("small", "large"):
        deploy(digits, DeployOptions(name), dsn)
    deploy(tiny_models.constant(folder, 1, "second"), DeployOptions("digits", activate=False), dsn)
    deploy(tiny_models.red_mask(folder, "strokes"), dsn=dsn)
    deploy(tiny_models.red_box(folder, "finder"), dsn=dsn)
    deploy(tiny_models.colour_embedding(folder, "features"), dsn=dsn)
    deploy(tiny_models.dark_lines(folder), dsn=dsn)
    deploy(tiny_models.colour_reader(folder), dsn=dsn)
    deploy(tiny_models.word_embedding(folder, "clip"), dsn=dsn)
    return dsn


@pytest.fixture
def filled(examples_dsn: str, db: Connection) -> Iterator[Connection]:
    """A session whose transaction holds the tables of the examples, and is rolled back."""
    db.autocommit = False
    rows(db, "CREATE ROLE analysts")
    rows(db, "CREATE TABLE images (id bigint PRIMARY KEY, path text, img bytea, label text)")
    for number in range(4):
        image = tiny_models.file(tiny_models.picture(200, 50 * number, 0))
        rows(db, "INSERT INTO images VALUES (%s, %s, %s, '0')", number, f"{number}.png", image)
    rows(db, "CREATE TABLE requested (request bigint)")
    for name, columns in RESULTS.items():
        rows(db, f"CREATE TABLE {name} (id bigint, {columns})")
    rows(db, "SELECT dbinfer.embed_into('embeddings', 'images', 'features')")
    folder = f"/tmp/dbinfer-test-photos-{os.getpid()}"
    encoded = b64encode(ask(db, "SELECT img FROM images WHERE id = 1")).decode()
    on_server(db, f"mkdir -p {folder}/2024 && base64 -d > {folder}/2024/1.jpg", encoded)
    rows(
        db,
        "SELECT dbinfer.add_store('photos', %s), dbinfer.grant_store('photos', 'public')",
        f"file://{folder}",
    )
    yield db
    db.rollback()
    on_server(db, f"rm -r {folder}")


@pytest.mark.wide
@pytest.mark.postgres_only("the examples are the same everywhere")
def test_every_example_of_a_function_runs(filled: Connection) -> None:
    for function in reference.functions(filled):
        rows(filled, "SAVEPOINT before")
        if function.name == "index_embeddings":
            if not rows(filled, VECTOR)[0][0]:
                continue
            rows(filled, "CREATE EXTENSION vector")
        if function.name == "cheap_threshold":  # takes 598 rows
            rows(
                filled,
                "INSERT INTO images SELECT n, '', img FROM images, generate_series(9, 608) n WHERE id = 1",
            )
        assert f"dbinfer.{function.name}(" in function.example
        rows(filled, function.example)
        rows(filled, "ROLLBACK TO before")


@pytest.mark.postgres_only("the examples are the same everywhere")
def test_every_example_of_a_view_runs(filled: Connection) -> None:
    views = reference.views(filled)
    assert {"models", "jobs", "usage"} <= {view[0] for view in views}
    for name, comment, *_ in views:
        shown = reference.example(name, comment)
        assert f"FROM dbinfer.{name}" in shown
        rows(filled, shown)
