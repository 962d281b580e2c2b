"""A network that nobody wrote for dbinfer, from a query to SQL; and mistakes, as the command shows them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import own_networks
import psycopg2
import pytest
from variants import further, wide

from dbinfer.cli import main
from dbinfer.images import builtin
from dbinfer.train.processes import check_built

pytest.importorskip("tensorflow")
PROGRAM = Path(sys.executable).with_name("dbinfer")
QUERY = "SELECT img, label, id FROM own_scans"
BOXES = """SELECT img, '[{"label": "a", "x": 1, "y": 1, "width": 5, "height": 5}]'::json, id FROM own_scans"""
MASKS = "SELECT img, img, id FROM own_scans"
COUNT = 200
MOBILENET = ["--set", "weights=none", "--set", "input_shape=(32,32,3)", "--set", "alpha=0.35"]


@dataclass(frozen=True)
class Shell:
    """A folder in which people work, with a database."""

    folder: Path
    dsn: str

    def __call__(self, *words: object) -> str:
        done = self.try_(*words)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    def try_(self, *words: object) -> subprocess.CompletedProcess[str]:
        env = {**os.environ, "COLUMNS": "300", "DBINFER_DSN": self.dsn}
        command = [str(PROGRAM), *map(str, words)]
        return subprocess.run(command, capture_output=True, text=True, check=False, env=env, cwd=self.folder)


@pytest.fixture(scope="module")
def shell(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Shell:
    """Files of networks, and a table of digits with their labels, as words too."""
    folder = tmp_path_factory.mktemp("own")
    for name in ("script", "branches", "function", "masks"):
        (folder / f"{name}.py").write_text(getattr(own_networks, name.upper()))
    with closing(psycopg2.connect(dsn)) as connection, connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE own_scans (id int PRIMARY KEY, img bytea, label int, word text)")
        for number, (data, label) in zip(range(COUNT), builtin.digit_files("train"), strict=False):
            values = (number, data, label, "even" if label % 2 == 0 else "odd")
            cursor.execute("INSERT INTO own_scans VALUES (%s, %s, %s, %s)", values)
    return Shell(folder, dsn)


@pytest.mark.parametrize(
    ("network", "name", "options", "ranks"),
    [
        ("script.py", "script", ["--lr", "0.01"], 1),
        *wide(
            ("branches.py", "branches", ["--lr", "0.02"], 2),
            ("keras.applications:MobileNetV2", "MobileNetV2", MOBILENET, 1),
        ),
        *further(
            ("script.py", "script", ["--lr", "0.01"], 2),
            ("branches.py", "branches", ["--lr", "0.02"], 1),
            ("keras.applications:MobileNetV2", "MobileNetV2", MOBILENET, 2),
        ),
    ],
)
def test_from_a_query_to_sql(shell: Shell, network: str, name: str, options: list[str], ranks: int) -> None:
    """The classes and scores of SQL are those of Keras: convert compares them, and the report has the accuracy."""
    if ranks > 1:
        check_built("gloo")
    out, model = f"runs/{name}-{ranks}", f"{name}_{ranks}".lower()
    words = ["--data", QUERY, "--val", QUERY, "--final", "last", "--batch", 16, "--warmup", 0, *options]
    said = shell("train", network, *words, "--epochs", 6, "--ranks", ranks, "--out", out)
    assert f"{name}: classification, " in said
    run = json.loads((shell.folder / out / "run.json").read_text())
    shell("convert", f"{out}/{name}.keras", "-o", f"{out}/{name}.xml")
    shell("deploy", f"{out}/{name}.xml", "--name", model, "--precision", "f32")
    with closing(psycopg2.connect(shell.dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT avg(((dbinfer.classify(img, %s)).label = label::text)::int)::float FROM own_scans",
            (model,),
        )
        (accuracy,) = cursor.fetchone() or (0,)
    # a score that is nearly another one's may fall on the other side
    assert accuracy == pytest.approx(run["metrics"]["val_accuracy"], abs=2 / COUNT)
    if name != "MobileNetV2":
        assert accuracy > 0.3


@pytest.mark.wide
def test_two_words_are_one_output(shell: Shell) -> None:
    """Its compiled optimizer and loss count; the score belongs to the second of the two words."""
    query = "SELECT img, word, id FROM own_scans"
    words = [
        "--set",
        "input_shape=[28,28,3]",
        "--epochs",
        4,
        "--batch",
        16,
        "--val",
        query,
        "--final",
        "last",
    ]
    said = shell("train", "function.py:make_model", "--data", query, *words, "--out", "runs/words")
    assert "1 output, raw scores, sigmoid in SQL; loss binary_crossentropy; accuracy decides; AdamW" in said
    shell("convert", "runs/words/function.keras", "-o", "runs/words/function.xml")
    shell("deploy", "runs/words/function.xml", "--name", "words", "--precision", "f32")
    with closing(psycopg2.connect(shell.dsn)) as connection, connection.cursor() as cursor:
        cursor.execute(
            "SELECT avg(((dbinfer.classify(img, 'words')).label = word)::int)::float FROM own_scans"
        )
        (accuracy,) = cursor.fetchone() or (0,)
    run = json.loads((shell.folder / "runs/words/run.json").read_text())
    assert accuracy == pytest.approx(run["metrics"]["val_accuracy"], abs=2 / COUNT)
    assert accuracy > 0.7


@pytest.mark.wide
def test_mistakes_are_one_sentence(
    shell: Shell,
    subtests: pytest.Subtests,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """In this process, as each of its own would import TensorFlow."""
    for name, value in {"COLUMNS": "300", "DBINFER_DSN": shell.dsn}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(shell.folder)
    for words, message, cure in [
        (["own_networks.py"], "the network own_networks.py cannot be read: No such file or directory", ""),
        (["branches.py", "--set", "depth=3"], "branches.py has no option 'depth'", "Options for --set: classes, size."),
        (["branches.py:branch"], "branches.py:branch cannot be built with {}: TypeError: ", ""),
        (["branches.py", "--set", "classes=3"], "has the shape (3), but the data has 10 labels", "Leave out --set"),
        (
            ["branches.py", "--data", "SELECT img, word, id FROM own_scans WHERE word = 'odd'"],
            "all images have the label 'odd', so there is nothing to tell apart",
            "Train on images of two labels or more.",
        ),
        (["branches.py", "--data", f"{QUERY} WHERE false"], "the query returns no rows", ""),
        (["masks.py", "--data", f"{MASKS} WHERE false"], "there are no images to train on", ""),
        (
            ["branches.py", "--data", BOXES],
            "a network of your own learns classes or masks",
            "",
        ),
    ]:  # fmt: skip
        with subtests.test(words=words):
            with pytest.raises(SystemExit) as ended:
                main(["train", "--data", QUERY, "--out", "runs/wrong", *words])
            assert ended.value.code in (1, 2)
            told = capsys.readouterr()
            text = " ".join(told.err.split())
            assert message in text
            assert cure in text
            assert "Traceback" not in told.out + told.err
    assert not (shell.folder / "runs" / "wrong").exists()
