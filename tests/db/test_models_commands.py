"""The commands of the registry as a user types them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import tiny_models
from asking import ask, make_images, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

PROGRAM = Path(sys.executable).with_name("dbinfer")
IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))


@pytest.fixture
def dbinfer(dsn: str) -> object:
    def run(*args: object, code: int | None = 0) -> str:
        """Return what the command printed; with another exit status than 0, its errors; None: both, whatever it is."""
        env = {**os.environ, "COLUMNS": "80", "DBINFER_DSN": dsn}
        done = subprocess.run(
            [PROGRAM, *map(str, args)], capture_output=True, text=True, check=False, env=env
        )
        assert code is None or done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        return done.stdout + done.stderr if code is None else done.stdout if code == 0 else done.stderr

    return run


def test_a_list_of_models_takes_few_imports(dsn: str) -> None:
    """What trains, compiles or decodes stays out; so do Python's packages for pages and for other databases."""
    code = (
        "import atexit, sys; from dbinfer.cli import main; "
        "atexit.register(lambda: print('\\nimported:', *sys.modules)); main(['models'])"
    )
    env = {**os.environ, "DBINFER_DSN": dsn}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)
    assert "models (* default)" in done.stdout
    imported = set(done.stdout.rpartition("imported:")[2].split())
    heavy = {
        "tensorflow",
        "keras",
        "openvino",
        "numpy",
        "cv2",
        "sqlalchemy",
        "jinja2",
        "rich.markdown",
        "rich.progress",
    }
    assert imported & {*heavy, "dbinfer.models.deployment", "dbinfer.install", "dbinfer.score"} == set()


def test_the_whole_way(dbinfer, db: Connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    assert "No model is deployed yet" in dbinfer("models")
    assert json.loads(dbinfer("models", "--json")) == []
    path = tiny_models.colour_classifier(tmp_path, "colours")
    out = dbinfer("deploy", path, "--alias", "production")
    assert "deployed colours@1 (classification" in out
    assert "SELECT dbinfer.classify(img, 'colours') FROM images" in out
    assert "already deployed: colours@1 (active)" in dbinfer("deploy", path)
    again = json.loads(dbinfer("deploy", path, "--json"))
    assert (again["new"], again["version"], again["manifest"]["task"]) == (False, 1, "classification")
    changed = json.loads(dbinfer("deploy", path, "--labels", "r,g,b", "--no-activate", "--json"))
    assert (changed["new"], changed["version"], changed["active"]) == (True, 2, False)
    assert ask(db, "SELECT (dbinfer.classify(%s)).label", IMAGE) == "red"
    dbinfer("activate", "colours@2")
    assert ask(db, "SELECT (dbinfer.classify(%s)).label", IMAGE) == "r"
    dbinfer("activate", "colours@1")
    assert ask(db, "SELECT (dbinfer.classify(%s)).label", IMAGE) == "red"
    assert "colours@2 is active" not in dbinfer("models")
    (model,) = json.loads(dbinfer("models", "--json"))
    assert (model["name"], model["version"], model["default"]) == ("colours", 1, True)
    assert [(v["version"], v["active"]) for v in model["history"]] == [(1, True), (2, False)]
    dbinfer("alias", "colours@2", "next")
    assert ask(db, "SELECT (dbinfer.classify(%s, 'colours@next')).label", IMAGE) == "r"
    refused = dbinfer("drop", "colours@1", code=1)
    assert "is active" in refused
    assert "hint: Activate another version first, or drop this one with --force." in refused
    dbinfer("drop", "colours@2")
    dbinfer("drop", "colours", "--force")
    assert json.loads(dbinfer("models", "--json")) == []


@pytest.mark.wide
def test_a_model_without_labels_is_not_deployed_in_silence(dbinfer, db: Connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    out = dbinfer("deploy", tiny_models.colour_classifier(tmp_path, "nameless", labels=[]))
    assert (
        "labels: none for the 3 classes, so classify gives their numbers, and NULL as the label; "
        "deploy it again with --labels a,b,c or --labels @FILE (a name per line)"
    ) in out
    assert ask(db, "SELECT dbinfer.classify(%s, 'nameless')::text", IMAGE) == "(0,,200)"
    out = dbinfer("deploy", tiny_models.boxes(tmp_path, [[0, 0, 4, 4, 0.9, 1]], "nameless_boxes"))
    assert "labels: none, so detect gives the numbers of classes" in out
    out = dbinfer("deploy", tiny_models.colour_classifier(tmp_path, "named"))
    assert "labels:" not in out
    out = dbinfer("deploy", tiny_models.probability(tmp_path, "binary"))
    assert "labels: none, so classify always gives class 0 of this one output" in out
    assert "--labels no,yes" in out
    assert ask(db, "SELECT (dbinfer.classify(%s, 'binary')).class", IMAGE) == 0
    dbinfer("deploy", tmp_path / "binary.xml", "--labels", "no,yes")
    assert ask(db, "SELECT (dbinfer.classify(%s, 'binary')).label", IMAGE) == "yes"


@pytest.mark.wide
def test_a_command_to_copy_is_in_one_line(dbinfer, db: Connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    """On 80 columns, or in a log, the line ended with `not active:`."""
    path, name = tiny_models.constant(tmp_path, 1, "waits"), "a_name_of_more_than_thirty_letters"
    out = dbinfer("deploy", path, "--name", name, "--alias", "candidate", "--no-activate")
    assert f"not active: dbinfer activate {name}@1)\n" in out
    again = dbinfer("deploy", path, "--name", name)
    assert f"already deployed: {name}@1 (not active: dbinfer activate {name}@1)\n" in again


def test_grant_and_revoke(dbinfer, db: Connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    dbinfer("deploy", tiny_models.constant(tmp_path, 1, "mine"), "--private")
    with role(db) as name:
        dbinfer("grant", "mine", name)
        assert ask(db, "SELECT dbinfer.predict(%s, 'mine')", IMAGE) == [1, 1, 1]
        dbinfer("revoke", "mine", name)
        refused = dbinfer("revoke", "mine", name, code=1)
        assert "was not granted" in refused
        assert "hint: To list grants: dbinfer models --json" in refused


@pytest.mark.wide
def test_lists_are_shown_to_a_role_that_may_use_no_model(  # type: ignore[no-untyped-def]
    dbinfer, db: Connection, dsn: str, tmp_path: Path
) -> None:
    """The views have NULL where such a role may not look."""
    path = tiny_models.colour_classifier(tmp_path, "hidden")
    dbinfer("deploy", path, "--private", "--alias", "secret")
    make_images(db, "images", [IMAGE], copies=3)
    dbinfer("score", "--model", "hidden")
    rows(db, "GRANT SELECT ON predictions, predictions_errors TO public")
    with role(db) as name:
        as_role = make_dsn(dsn, options=f"-c role={name}")
        shown = dbinfer("models", "--dsn", as_role)
        assert "hidden" in shown
        assert "secret" not in shown
        for words in (
            "models --json",
            "jobs",
            "usage",
            "cache",
            "engine",
            "plan --model hidden --host-count 1",
        ):
            said = dbinfer(*words.split(), "--dsn", as_role, code=None)
            assert said, words
            assert "secret" not in said, words
        page = tmp_path / "report.html"
        dbinfer("report", "--out", page, "--dsn", as_role)
        assert "hidden@1" in page.read_text()
        assert "secret" not in page.read_text()
        refused = dbinfer("report", "--model", "hidden@secret", "--dsn", as_role, code=1)
        assert "there are no results of 'hidden@secret'" in refused


@pytest.mark.wide
def test_labels_from_a_file(dbinfer, db: Connection, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    names = tmp_path / "names.txt"
    names.write_text("un\ndeux\ntrois\n")
    dbinfer("deploy", tiny_models.foreign(tmp_path, {}, "french"), "--labels", f"@{names}", "--default")
    assert ask(db, "SELECT (dbinfer.classify(%s)).label", IMAGE) == "un"


@pytest.mark.wide
def test_mistakes(dbinfer, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    path = tiny_models.constant(tmp_path, 4, "wrong")
    assert "is not a valid model name" in dbinfer("deploy", path, "--name", "a b", code=1)
    assert "does not exist" in dbinfer("activate", "nobody@1", code=1)
    assert "labels" in dbinfer("deploy", tiny_models.colour_classifier(tmp_path), "--labels", "one", code=1)
    assert "task" in dbinfer("deploy", path, "--task", "magic", code=2)
    assert "resize" in dbinfer("deploy", path, "--resize", "magic", code=2)
