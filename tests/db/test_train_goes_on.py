"""A deployed version goes on learning from its Keras file in the database."""

from __future__ import annotations

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
        told = rows(
            db,
            "SELECT metrics, provenance->'training'->>'data', aliases, "
            "ARRAY(SELECT (x->>'label', x->>'answer', x->>'images')::text "
            "FROM jsonb_array_elements(provenance->'training'->'confusion') x) FROM dbinfer.models",
        )
        counted = rows(
            db,
            "SELECT (label, (c).label, count(*))::text FROM (SELECT label, dbinfer.classify(img, 'digits@first') AS c "
            "FROM goes_on OFFSET 0) x GROUP BY label, (c).label ORDER BY label, (c).label",
        )
    assert told == [(first.metrics, ALL, ["first=1"], [row[0] for row in counted])]


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


def test_a_candidate_is_compared_with_the_active_version(
    first: TrainReport, dsn: str, tmp_path: Path
) -> None:
    """On the rows that were held out alone, by SQL; the registry keeps the verdict, and nothing is activated."""
    out = tmp_path / "candidate"
    held = f"{ALL} WHERE id % 3 = 0"
    options = dbinfer.TrainOptions(
        out=str(out), epochs=1, batch=64, lr=0.003, val=held, deploy="digits", alias="candidate"
    )
    report = dbinfer.train("digits@1", f"{ALL} WHERE id % 3 > 0", options, dsn)
    found = report.comparison
    assert found is not None
    both = ", ".join(
        f"(dbinfer.classify(img, 'digits@{one}')).label = label::text" for one in ("candidate", "first")
    )
    with closing(psycopg2.connect(dsn)) as db:
        answers = rows(db, f"SELECT {both} FROM goes_on WHERE id % 3 = 0")
        kept = rows(
            db,
            "SELECT active, manifest->'provenance'->'training'->'comparison', manifest->'metrics' "
            "FROM dbinfer.model_versions WHERE name = 'digits' AND 'candidate' = ANY (aliases)",
        )
    new, old = ([pair[place] for pair in answers] for place in (0, 1))
    assert (found.images, found.active, found.measure) == (COUNT // 3, "digits@1", "accuracy")
    assert (found.new, found.old) == (pytest.approx(np.mean(new)), pytest.approx(np.mean(old)))
    assert (found.new_better, found.old_better) == (
        answers.count((True, False)),
        answers.count((False, True)),
    )
    new_share, old_share = (f"{100 * share:.1f} %" for share in (found.new, found.old))
    told = f"Of 100 images digits@2 gets right {new_share}, the active digits@1 {old_share}; of "
    assert found.verdict.startswith(told)
    assert kept == [(False, found.to_dict(), report.metrics)]
    assert report.to_dict()["comparison"]["verdict"] == found.verdict


def job(first: TrainReport, dsn: str, data: str, **more: object) -> TrainJob:
    out = str(first.model.parent.parent / "next")
    values = {"out": out, "dsn": dsn, "val": ALL, "epochs": 1, "batch": 64, "final": "last", **more}
    return TrainJob("digits@1", data, **values)  # type: ignore[arg-type]


def test_it_goes_on_where_it_was(first: TrainReport, dsn: str) -> None:
    """The new rows show three digits of the ten, whose numbers stay."""
    assert first.metrics["val_accuracy"] > 0.5
    report = run(job(first, dsn, f"{ALL} WHERE label IN (3, 5, 8)", lr=SLOW))
    assert report.metrics["val_accuracy"] == pytest.approx(first.metrics["val_accuracy"], abs=2 / COUNT)
    manifest = dbinfer.convert(report.model, report.model.with_suffix(".xml")).manifest
    assert manifest.labels == tuple("0123456789")
    assert manifest.provenance["training"]["network"] == "digits@1"
    assert report.model.name == "digits.keras"


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
