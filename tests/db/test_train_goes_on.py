"""A deployed version goes on learning from its Keras file in the database."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import role, rows
from psycopg2.extensions import make_dsn

import dbinfer
from dbinfer.base.errors import DataError, RegistryError, TrainError
from dbinfer.images import builtin
from dbinfer.train import TrainJob, TrainReport, run

pytest.importorskip("tensorflow")
COUNT = 300
ALL = "SELECT img, label, id FROM goes_on"
# Almost none: what is left shows what it has begun with
SLOW = 1e-7


@pytest.fixture(scope="module")
def options(tmp_path_factory: pytest.TempPathFactory) -> dbinfer.TrainOptions:
    """From a query to an active version with its Keras file, in one command."""
    out = str(tmp_path_factory.mktemp("goes_on") / "first")
    return dbinfer.TrainOptions(
        out=out,
        epochs=4,
        batch=16,
        lr=0.005,
        val=ALL,
        deploy="digits",
        alias="first",
        activate=True,
        source=True,
    )


@pytest.fixture(scope="module")
def first(dsn: str, options: dbinfer.TrainOptions) -> TrainReport:
    with closing(psycopg2.connect(dsn)) as db, db:
        rows(db, "CREATE TABLE goes_on (id int PRIMARY KEY, img bytea, label int)")
        for number, (data, label) in zip(range(COUNT), builtin.digit_files("train"), strict=False):
            rows(db, "INSERT INTO goes_on VALUES (%s, %s, %s)", number, data, label)
    return dbinfer.train("digits", ALL, options, dsn)


def test_from_a_query_to_classify_in_one_command(first: TrainReport, dsn: str) -> None:
    """What the version says of its answers is what SQL counts on the same rows."""
    assert first.deployed is not None
    assert (first.deployed.name, first.deployed.version, first.deployed.active) == ("digits", 1, True)
    with closing(psycopg2.connect(dsn)) as db:
        # Not an ARRAY(SELECT ...) of each row: Greenplum 7 with ORCA ended with a segmentation fault in one
        ((metrics, training, aliases),) = rows(
            db, "SELECT metrics, provenance->'training', aliases FROM dbinfer.models"
        )
        counted = rows(
            db,
            "SELECT label::text, (c).label, count(*) FROM (SELECT label, dbinfer.classify(img, 'digits@first') AS c "
            "FROM goes_on OFFSET 0) x GROUP BY label, (c).label ORDER BY 1, 2",
        )
    assert (metrics, training["data"], aliases) == (first.metrics, ALL, ["first=1"])
    assert [(one["label"], one["answer"], one["images"]) for one in training["confusion"]] == counted


@pytest.mark.wide
def test_a_run_that_was_stopped_before_it_was_deployed(
    first: TrainReport, dsn: str, options: dbinfer.TrainOptions
) -> None:
    """--resume trains nothing again; a version that is there already stays the only one."""
    events: list[str] = []

    def again() -> dbinfer.DeployReport | None:
        more = replace(options, resume="last", deploy="stopped", activate=False)
        return dbinfer.train(
            "digits", ALL, more, dsn, lambda step: events.append(step.note or step.step)
        ).deployed

    once, twice = again(), again()
    assert once is not None
    assert twice is not None
    assert [(one.version, one.active, one.new) for one in (once, twice)] == [
        (1, False, True),
        (1, False, False),
    ]
    assert any("is complete" in event for event in events)
    assert not [event for event in events if event.startswith("epoch")]
    # Of other rows nobody knows which were held out
    with closing(psycopg2.connect(dsn)) as db, db:
        rows(db, "INSERT INTO goes_on SELECT -1, img, label FROM goes_on WHERE id = 0")
    later = dbinfer.train("digits", ALL, replace(options, resume="last", activate=False), dsn)
    with closing(psycopg2.connect(dsn)) as db, db:
        rows(db, "DELETE FROM goes_on WHERE id = -1")
    assert later.comparison is not None
    assert later.comparison.verdict.startswith(
        "digits@1 was not compared with digits@1: the data has other rows by now"
    )


# Ends itself by kill -9 at the first step of this name
TRAINING = """
import json, os, signal, sys
import dbinfer

def tell(step):
    if step.step == until:
        os.kill(os.getpid(), signal.SIGKILL)
    if step.note:
        print(step.note, flush=True)

dsn, data, values, until = sys.argv[1:]
report = dbinfer.train("digits", data, dbinfer.TrainOptions(**json.loads(values)), dsn, tell)
print(json.dumps(report.to_dict()))
"""


@pytest.mark.wide
def test_a_run_that_is_killed_at_each_step_goes_on_there(
    first: TrainReport, dsn: str, tmp_path: Path
) -> None:
    """It leaves what a run leaves that nobody stopped: one version, compared before it becomes active."""
    dbinfer.deploy(first.model.with_suffix(".xml"), dbinfer.DeployOptions(name="killed"), dsn)
    values = {"epochs": 3, "batch": 16, "val": ALL, "alias": "next", "activate": True, "source": True}

    def train(name: str, until: str, **more: object) -> subprocess.CompletedProcess[str]:
        said = json.dumps({**values, "out": str(tmp_path / name), "deploy": name, **more})
        command = [sys.executable, "-c", TRAINING, dsn, ALL, said, until]
        return subprocess.run(command, capture_output=True, text=True, check=False)

    steps = ["epoch 2/3", "writing digits.xml (fp32)", "sending", "comparing", "activating"]
    if os.environ.get("LONG"):
        steps[1:1] = ["reading digits.keras (keras)"]
        steps[3:3] = ["comparing source and result", "reading digits.xml", "preparing", "trying"]
    for number, step in enumerate(steps):
        done = train("killed", step, **({"resume": "last"} if number else {}))
        assert done.returncode == -signal.SIGKILL, (step, done.stdout, done.stderr)
        with closing(psycopg2.connect(dsn)) as db:
            found = rows(
                db, "SELECT version, active FROM dbinfer.model_versions WHERE name = 'killed' ORDER BY 1"
            )
        assert found == [(1, True), (2, False)][: 1 + (number >= steps.index("comparing"))], step
    last = json.loads(train("killed", "", resume="last").stdout.splitlines()[-1])
    whole = json.loads(train("never_killed", "").stdout.splitlines()[-1])
    assert (last["metrics"], last["deployed"]["version"], last["deployed"]["active"]) == (
        whole["metrics"],
        2,
        True,
    )
    with closing(psycopg2.connect(dsn)) as db:
        (kept,) = rows(
            db,
            "SELECT version, active, aliases, manifest->'provenance'->'training'->'comparison' "
            "FROM dbinfer.model_versions WHERE name = 'killed' AND version > 1",
        )
        differ = rows(
            db,
            "SELECT count(*) FROM goes_on "
            "WHERE dbinfer.predict(img, 'killed') IS DISTINCT FROM dbinfer.predict(img, 'never_killed')",
        )
    assert kept == (2, True, ["next"], last["comparison"])
    assert last["comparison"]["verdict"].startswith(f"Of {COUNT} images killed@2 gets right ")
    assert differ == [(0,)]


@pytest.mark.wide
def test_who_may_not_deploy_hears_it_first(dsn: str, tmp_path: Path) -> None:
    wrong = dbinfer.TrainOptions(out=str(tmp_path / "run"), deploy="1st")
    with pytest.raises(RegistryError, match="'1st' is not a valid model name"):
        dbinfer.train("digits", "digits", wrong, dsn)
    with closing(psycopg2.connect(dsn)) as db, role(db) as name:
        db.commit()
        other = make_dsn(dsn, options=f"-c role={name}")
        with pytest.raises(RegistryError, match="permission denied"):
            dbinfer.train("digits", "digits", replace(wrong, deploy="first"), other)
    assert not (tmp_path / "run").exists()


def job(first: TrainReport, dsn: str, data: str, **more: object) -> TrainJob:
    out = str(first.model.parent.parent / "next")
    values = {"out": out, "dsn": dsn, "val": ALL, "epochs": 1, "batch": 64, "final": "last", **more}
    return TrainJob("digits@1", data, **values)  # type: ignore[arg-type]


@pytest.fixture(scope="module")
def candidate(first: TrainReport, dsn: str) -> TrainReport:
    """What goes on from the active version, on three digits of the ten, whose numbers stay."""
    query = f"{ALL} WHERE label IN (3, 5, 8)"
    more = job(first, dsn, query, lr=SLOW, deploy="digits", alias="candidate")
    return dbinfer.train(more.network, more.data, more, dsn)


def test_it_goes_on_where_it_was(first: TrainReport, candidate: TrainReport) -> None:
    assert first.metrics["val_accuracy"] > 0.5
    assert candidate.metrics["val_accuracy"] == pytest.approx(first.metrics["val_accuracy"], abs=2 / COUNT)
    assert candidate.deployed is not None
    manifest = candidate.deployed.manifest
    assert manifest.labels == tuple("0123456789")
    assert manifest.provenance["training"]["network"] == "digits@1"
    assert candidate.model.name == "digits.keras"


def test_a_candidate_is_compared_with_the_active_version(candidate: TrainReport, dsn: str) -> None:
    """By SQL, on the rows that were held out; the registry keeps the verdict, and nothing is activated."""
    found = candidate.comparison
    assert found is not None
    with closing(psycopg2.connect(dsn)) as db:
        new, old = (
            rows(
                db,
                f"SELECT (dbinfer.classify(img, 'digits@{one}')).label = label::text FROM goes_on ORDER BY id",
            )
            for one in ("candidate", "first")
        )
        kept = rows(
            db,
            "SELECT active, manifest->'provenance'->'training'->'comparison', manifest->'metrics' "
            "FROM dbinfer.model_versions WHERE name = 'digits' AND 'candidate' = ANY (aliases)",
        )
    assert (found.images, found.active, found.measure) == (COUNT, "digits@1", "accuracy")
    assert (found.new, found.old) == (pytest.approx(np.mean(new)), pytest.approx(np.mean(old)))
    pairs = [(mine[0], other[0]) for mine, other in zip(new, old, strict=True)]
    assert (found.new_better, found.old_better) == (pairs.count((True, False)), pairs.count((False, True)))
    assert found.verdict.startswith(
        f"Of {COUNT} images digits@2 gets right {100 * found.new:.1f} %, the active digits@1 "
    )
    assert kept == [(False, found.to_dict(), candidate.metrics)]
    assert candidate.to_dict()["comparison"]["verdict"] == found.verdict


@pytest.mark.wide
def test_fine_tuning_gives_it_a_head_for_other_labels(first: TrainReport, dsn: str) -> None:
    data = "SELECT img, CASE WHEN label % 2 = 0 THEN 'even' ELSE 'odd' END, id FROM goes_on"
    more = {"val": data, "head_epochs": 4, "epochs": 1, "batch": 16, "lr": 0.01}
    report = run(job(first, dsn, data, fine_tune=0.3, **more))
    assert report.run["config"]["labels"] == list("0123456789")
    assert report.metrics["val_accuracy"] > 0.8


@pytest.mark.wide
def test_code_in_a_keras_file_is_not_run(first: TrainReport, dsn: str, tmp_path: Path) -> None:
    """As in convert; who deploys may have made the file without dbinfer."""
    import keras

    image = keras.Input((8, 8, 3))
    touched = tmp_path / "touched"
    harm = keras.layers.Lambda(lambda x, path=str(touched): (__import__("pathlib").Path(path).touch(), x)[1])
    keras.Model(image, keras.layers.Dense(2)(keras.layers.Flatten()(harm(image)))).save(
        tmp_path / "code.keras"
    )
    touched.unlink()
    ir = tiny_models.constant(tmp_path, 1, "code")
    dbinfer.deploy(ir, dbinfer.DeployOptions(source=tmp_path / "code.keras"), dsn)
    with pytest.raises(TrainError, match="uses a custom layer that only its own program knows"):
        run(TrainJob("code@1", ALL, dsn=dsn, out=str(tmp_path / "run")))
    assert not touched.exists()


@pytest.mark.wide
def test_mistakes_of_versions(first: TrainReport, dsn: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="the query returns the class 'odd', but the classes are 0, 1"):
        run(job(first, dsn, "SELECT img, 'odd'::text, id FROM goes_on"))
    with pytest.raises(DataError, match=r"the data has the labels .*, but digits@1 has 0, 1, 2"):
        run(job(first, dsn, f"cifar10:{tmp_path / 'none.tar.gz'}", val="none"))
    for version, message in [
        ("digits@7", 'model "digits" has no version or alias "7"'),
        ("nobody@1", 'model "nobody" does not exist'),
    ]:
        with pytest.raises(RegistryError, match=message):
            run(TrainJob(version, ALL, dsn=dsn, out=str(tmp_path / "run")))
    assert not (tmp_path / "run").exists()
