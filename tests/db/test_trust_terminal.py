"""Hostile labels, names and file names through the commands that print them: a terminal gets text and nothing else."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiny_models
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import HARMFUL
from dbinfer.cli import main

BAD = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f[/][link=x]"
SHOWN = r"\x1b]0;owned\x07\x1b[2J\x9b31m\u202e\x7f[/][link=x]"
TABLE, ROLE = f"images {BAD}", f"somebody {BAD}"[:60]
IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))


# what an IR may hold: XML has no C0
IN_XML = "\x9b31m\u202e\x7f[/][link=x]"


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A classifier with hostile labels, metrics and provenance, in a file of a hostile name, beside one of labels."""
    folder = tmp_path_factory.mktemp("irs")
    said = {"labels": [f"{name} {IN_XML}" for name in tiny_models.COLOURS]}
    more = {"metrics": {f"accuracy {IN_XML}": 0.5}, "provenance": {IN_XML: IN_XML}}
    (folder / "labels").write_text("".join(f"{name} {BAD}\n" for name in tiny_models.COLOURS))
    return tiny_models.colour_classifier(folder, f"net {BAD.replace('/', '')}", **said, **more)


@pytest.fixture
def named(db: Connection) -> object:
    """A table and a role whose names are hostile."""
    table, role = sql.Identifier(TABLE), sql.Identifier(ROLE)
    with db.cursor() as cur:
        cur.execute(sql.SQL("CREATE TABLE {} (id bigint, path text, label text, img bytea)").format(table))
        cur.execute(
            sql.SQL("INSERT INTO {} VALUES (1, %s, %s, %s), (2, %s, %s, '\\x00')").format(table),
            (BAD, f"red {BAD}", IMAGE, f"{BAD}2", f"blue {BAD}"),
        )
        cur.execute(sql.SQL("CREATE ROLE {}").format(role))
    db.commit()
    yield
    with db.cursor() as cur:
        cur.execute(sql.SQL("DROP OWNED BY {0}; DROP ROLE {0}").format(role))
        cur.execute(sql.SQL("DROP TABLE {} CASCADE").format(table))
    db.commit()


def images(folder: Path) -> Path:
    """Return a folder of images and of what is none, with hostile names; a break of lines is a sign of names, too."""
    (folder / BAD.replace("/", "")).mkdir(parents=True)
    for name, data in ((f"good {BAD}\nforged", IMAGE), (f"bad {BAD}\nforged", b"\x89PNG\r\n\x1a\n")):
        (folder / BAD.replace("/", "") / f"{name.replace('/', '')}.png").write_bytes(data)
    return folder


@pytest.mark.wide
def test_commands_print_no_sign_that_controls_a_terminal(
    db: Connection, dsn: str, model: Path, named: object, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder, out = images(tmp_path / "files"), tmp_path / f"out{BAD.replace('/', '')}"
    out.mkdir()
    quoted = f'"{TABLE}"'
    walk = [
        ["deploy", model, "--name", "hostile"],
        [
            "deploy",
            model,
            "--name",
            "hostile",
            "--labels",
            f"@{model.with_name('labels')}",
            "--alias",
            "candidate",
        ],
        ["deploy", model, "--name", "hostile"],
        ["deploy", model],
        ["deploy", model, "--name", BAD],
        ["deploy", model.with_name(f"none{model.name}")],
        ["models"],
        ["activate", BAD],
        ["alias", "hostile@1", BAD],
        ["default", BAD],
        ["grant", "hostile", ROLE],
        ["models"],
        ["revoke", "hostile", ROLE],
        ["grant", BAD, BAD],
        ["load", folder, "--table", "loaded_hostile", "--label-from", "folder"],
        ["load", folder, "--table", f'"other {BAD}"'],
        ["load", folder, "--table", f"another {BAD}"],
        ["load", folder / BAD, "--table", BAD],
        ["predict", *folder.rglob("good*.png"), "--model", "hostile"],
        ["predict", *sorted(folder.rglob("*.png")), "--model", "hostile"],
        ["predict", folder / BAD, "--model", BAD],
        ["score", "--table", quoted, "--predictions", "hostile_answers", "--model", "hostile", "--key", "id"],
        ["score", "--table", quoted, "--predictions", f'"answers {BAD}"', "--model", "hostile", "--key", BAD],
        [
            "score",
            "--table",
            quoted,
            "--predictions",
            f'"answers {BAD}"',
            "--model",
            "hostile",
            "--key",
            "id",
        ],
        ["score", "--table", BAD, "--predictions", BAD, "--model", BAD],
        ["jobs"],
        ["usage"],
        [
            "report",
            "--table",
            quoted,
            "--predictions",
            "hostile_answers",
            "--key",
            "id",
            "--out",
            out / "page.html",
        ],
        ["report", "--table", quoted, "--predictions", BAD, "--out", out / "page.html"],
        ["judge", f"SELECT '{BAD}', '{BAD}'"],
        ["doctor"],
        ["doctor", "--query", f"SELECT '{BAD}' FROM {quoted} WHERE"],
        ["cache"],
        ["engine", "status"],
        ["plan", "--images", "2k", "--model", "hostile"],
        ["sample", BAD],
        ["convert", model, "-o", out / "again.xml"],
        ["convert", model, "-o", out / "again.xml", "--output-name", BAD],
        ["quantize", model, "--calibrate", f"SELECT img FROM {quoted} WHERE id = 1", "-o", out / "int8.xml"],
        ["quantize", model, "--calibrate", f"SELECT img FROM {quoted}", "-o", out / "other.xml"],
        ["quantize", model, "--calibrate", f"SELECT '{BAD}'::nothing", "-o", out / "other.xml"],
        ["train", BAD, "--data", folder / BAD, "--out", out / BAD],
        ["drop", BAD],
        ["drop", "hostile@7"],
    ]
    said, done = "", set()
    for words in walk:
        text = [str(word) for word in words]
        local = words[0] in ("convert", "train")
        for more in ([], ["--json"]):
            ended = run([*text, *([] if local else ["--dsn", dsn]), *more])
            out_text, err_text = capfd.readouterr()
            assert HARMFUL.findall(out_text + err_text) == [], (words[0], out_text, err_text)
            assert "Traceback" not in err_text, words
            assert ended in (0, 1, 2), words
            assert "\nforged" not in err_text
            if more and ended == 0 and words[0] != "train":
                json.loads(out_text)
            said += out_text + err_text
            done |= {words[0]} if ended == 0 else set()
    # they were seen, and as what they are
    assert said.count(SHOWN) > 20
    ended_well = {
        *(["quantize"] if find_spec("nncf") else []),
        "deploy",
        "models",
        "load",
        "predict",
        "score",
        "jobs",
        "usage",
        "report",
        "convert",
    }
    assert ended_well <= done, said


def run(words: list[str]) -> object:
    try:
        main(words)
    except SystemExit as end:
        return end.code
    return 0


@pytest.mark.wide
def test_the_page_of_a_report_has_text_alone(
    db: Connection, dsn: str, model: Path, named: object, tmp_path: Path
) -> None:
    page = tmp_path / "page.html"
    labels = f"@{model.with_name('labels')}"
    assert run(["deploy", str(model), "--name", "hostile", "--labels", labels, "--dsn", dsn]) == 0
    given = ["--table", f'"{TABLE}"', "--key", "id", "--dsn", dsn]
    assert run(["score", *given, "--predictions", "hostile_page", "--model", "hostile"]) == 0
    assert run(["report", *given, "--predictions", "hostile_page", "--out", str(page)]) == 0
    html = page.read_text()
    assert not HARMFUL.search(html.replace(BAD, "")), "a sign that controls, beside the names that are shown"
