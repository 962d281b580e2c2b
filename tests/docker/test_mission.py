"""The whole way: two hosts train, the model is converted and deployed, and the database container scores new images."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
from asking import ask
from containers import Project, docker
from outside import facts
from projects import Database

from dbinfer.images import builtin

EPOCHS = 8
GOOD = 0.9  # of the held-out digits; guessing gives 0.1


def test_train_convert_deploy_score(training: Project, database: Database, tmp_path: Path) -> None:
    words = ("--ranks", "2", "--hosts", "host1:1,host2:1", "--launcher", "mpi", "--epochs", str(EPOCHS))
    training.execute(
        "host1", "dbinfer", "train", "digits", "--data", "digits", "--out", "/work/mission", *words
    )
    training.execute(
        "host2", "dbinfer", "convert", "/work/mission/digits.keras", "-o", "/work/mission/digits.xml"
    )
    for name in ("digits.xml", "digits.bin"):
        docker("cp", f"{training.container('host1')}:/work/mission/{name}", str(tmp_path / name))
    facts(database.dsn, "deploy", str(tmp_path / "digits.xml"), "--name", "digits")

    heldout = builtin.write_digits(tmp_path / "digits", "heldout")
    loaded = facts(
        database.dsn, "load", str(tmp_path / "digits"), "--table", "digits", "--label-from", "folder"
    )
    assert loaded["loaded"] == len(heldout)
    facts(database.dsn, "score", "--table", "digits", "--predictions", "found", "--model", "digits")
    with closing(psycopg2.connect(database.dsn)) as db:
        right = ask(db, "SELECT avg((f.label = d.label)::int)::float FROM found f JOIN digits d USING (id)")
        hosts = "SELECT manifest->'provenance'->'training'->'hosts' FROM dbinfer.model_versions WHERE name = 'digits'"
        assert ask(db, hosts) == ["host1", "host2"]
    assert right > GOOD
    assert facts(database.dsn, "doctor")["ok"]
