"""What images may have beside one label: several labels, or a number, from a query to SQL; labels that are rare."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import psycopg2
import pytest
from asking import ask, rows
from psycopg2.extensions import connection as Connection
from variants import at_length, further, wide

import dbinfer
from dbinfer.base.errors import DataError, TrainError, UsageError
from dbinfer.images import builtin
from dbinfer.train import TrainJob, run
from dbinfer.train.processes import check_built
from dbinfer.train.setup import hold_out, make_setup

pytest.importorskip("tensorflow")
COUNT = 600
HELDOUT = f"id >= {COUNT}"
# A network for any number of outputs; softmax asks for one label
NETWORK = """
import keras
from keras import layers


def build(classes, ending={ending!r}):
    image = x = keras.Input((28, 28, 1))
    for filters in (8, 16):
        x = layers.MaxPooling2D()(layers.Conv2D(filters, 3, activation="relu", padding="same")(x))
    x = layers.Dense(32, activation="relu")(layers.Flatten()(x))
    return keras.Model(image, layers.Dense(classes, activation=ending)(x))
"""
LABELS = "SELECT img, labels, id FROM truths"
NUMBERS = "SELECT img, ink, id FROM truths"
# A scale whose order is not that of the alphabet, and whose last step no digit has
STEPS = ("none", "little", "some", "much", "full")


def labels_of(digit: int) -> list[str]:
    """Return what is true of a digit: of 1 nothing is."""
    facts = {"even": digit % 2 == 0, "high": digit > 5, "round": digit in (0, 6, 8, 9)}
    return [name for name, true in facts.items() if true]


@pytest.fixture(scope="module")
def db(dsn: str) -> Iterator[Connection]:
    """Digits with what is true of them, and how much ink they have; as many again are held out."""
    with closing(psycopg2.connect(dsn)) as connection:
        rows(
            connection,
            f"CREATE TYPE grade AS ENUM {STEPS}; CREATE TABLE truths "
            "(id int PRIMARY KEY, img bytea, labels text[], ink real, label int, grade grade)",
        )
        for number, (data, digit) in zip(range(2 * COUNT), builtin.digit_files("train"), strict=False):
            pixels = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_GRAYSCALE)
            values = (number, data, labels_of(digit), float(pixels.mean()) / 25, digit)
            rows(connection, "INSERT INTO truths VALUES (%s, %s, %s, %s, %s)", *values)
        tiles = "SELECT id AS of, ntile(4) OVER (ORDER BY ink, id) AS part FROM truths"
        rows(
            connection,
            f"UPDATE truths SET grade = (enum_range(NULL::grade))[part] FROM ({tiles}) t WHERE of = id",
        )
        connection.commit()
        yield connection


def network(folder: Path, ending: str | None) -> str:
    path = folder / f"net_{ending or 'raw'}.py"
    path.write_text(NETWORK.format(ending=ending))
    return str(path)


def options(folder: Path, name: str, **more: object) -> dbinfer.TrainOptions:
    values = {"out": str(folder / name), "epochs": 8, "batch": 16, "lr": 0.003, "deploy": name, **more}
    return dbinfer.TrainOptions(activate=True, **values)  # type: ignore[arg-type]


@pytest.mark.wide
def test_several_labels_at_once(db: Connection, dsn: str, tmp_path: Path) -> None:
    """Each label gets the threshold that is best on the validation; F1 in SQL is over images of neither part."""
    report = dbinfer.train(
        network(tmp_path, "sigmoid"), f"{LABELS} WHERE id < {COUNT}", options(tmp_path, "facts"), dsn
    )
    thresholds = ask(db, "SELECT manifest->'thresholds' FROM dbinfer.model_versions WHERE name = 'facts'")
    told = report.run["by_label"]
    assert [one["label"] for one in told] == ["even", "high", "round"]
    assert thresholds == [one["threshold"] for one in told]
    assert all(0 < one["threshold"] < 1 and one["f1"] > 0.8 for one in told)
    found = ask(
        db,
        "SELECT 2.0 * sum(cardinality(ARRAY(SELECT unnest(labels) INTERSECT SELECT unnest(found)))) "
        "/ sum(cardinality(labels) + cardinality(found)) FROM (SELECT labels, ARRAY(SELECT label FROM "
        f"unnest(dbinfer.classify_all(img, 'facts'))) AS found FROM truths WHERE {HELDOUT} OFFSET 0) x",
    )
    print(f"F1 of {COUNT} held-out images: {found:.4f}")
    assert found > 0.85


@pytest.mark.wide
def test_a_number(db: Connection, dsn: str, tmp_path: Path) -> None:
    report = dbinfer.train(
        network(tmp_path, None), f"{NUMBERS} WHERE id < {COUNT}", options(tmp_path, "ink", epochs=12), dsn
    )
    errors = [epoch.values["val_mean_absolute_error"] for epoch in report.history]
    assert report.best_epoch == errors.index(min(errors)) + 1
    found = f"SELECT ink, (dbinfer.predict(img, 'ink'))[1] AS found FROM truths WHERE {HELDOUT} OFFSET 0"
    error, usual = rows(
        db,
        f"SELECT avg(abs(ink - found)), avg(abs(ink - mean)) FROM ({found}) x, (SELECT avg(ink) AS mean FROM truths) y",
    )[0]
    print(f"error of {COUNT} held-out images: {error:.4f}, of their mean: {usual:.4f}")
    assert error < usual / 3


@at_length
def test_a_new_head_for_other_truths(db: Connection, dsn: str, tmp_path: Path) -> None:
    """What has learned labels goes on to a number."""
    begin = options(tmp_path, "labels", epochs=1, source=True)
    dbinfer.train(network(tmp_path, "sigmoid"), LABELS, begin, dsn)
    again = options(tmp_path, "tuned", fine_tune=0.5, head_epochs=1, epochs=1)
    report = dbinfer.train("labels@1", NUMBERS, again, dsn)
    assert "val_mean_absolute_error" in report.metrics
    assert report.run["config"]["described"]["head"].startswith("in place of ")
    assert report.run["config"]["described"]["loss"] == "mean_squared_error"
    assert ask(db, "SELECT array_length(dbinfer.predict(img, 'tuned'), 1) FROM truths LIMIT 1") == 1


@pytest.mark.wide
def test_mistakes_of_truths(db: Connection, dsn: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    softmax, raw = network(tmp_path, "softmax"), network(tmp_path, None)
    null = "SELECT img, array_append(labels, NULL), id FROM truths"
    for net, data, error, message in [
        (
            softmax,
            LABELS,
            UsageError,
            "ends with softmax, but the images of the data have any number of labels each",
        ),
        (softmax, NUMBERS, UsageError, "ends with softmax, but the images of the data have a number each"),
        (
            "digits",
            LABELS,
            TrainError,
            "the data is for multilabel, but the network digits is for classification",
        ),
        (raw, "SELECT img, '{}'::text[], id FROM truths", DataError, "no row of the query has a label"),
        (raw, "SELECT img, '{a}'::text[], id FROM truths", DataError, "the only label is 'a'"),
        (raw, null, DataError, "of the query has a NULL among its labels"),
        (raw, "SELECT img, 'NaN'::real, id FROM truths", DataError, "of the query has the number nan"),
    ]:
        with subtests.test(message=message), pytest.raises(error, match=message):
            run(TrainJob(net, data, dsn=dsn, out=str(tmp_path / "wrong"), epochs=1))


def recall(db: Connection, dsn: str, folder: Path, **more: object) -> float:
    """Return the share of held-out eights that a network finds which has seen 20 of them among 400 other digits."""
    data = "SELECT img, CASE WHEN label = 8 THEN 'eight' ELSE 'other' END, id FROM truths WHERE {}"
    few = "id IN (SELECT id FROM truths WHERE id < 600 AND label = 8 ORDER BY id LIMIT 20)"
    train = data.format(f"{few} OR (label <> 8 AND id < 440)")
    job = TrainJob(
        network(folder, "softmax"), train, dsn=dsn, out=str(folder / "rare"), val=data.format(HELDOUT), epochs=6,
        batch=16, lr=0.003, final="last", **more  # type: ignore[arg-type]
    )  # fmt: skip
    cells = [cell for cell in run(job).run["confusion"] if cell["label"] == "eight"]
    found = sum(cell["images"] for cell in cells if cell["answer"] == "eight")
    return float(found / sum(cell["images"] for cell in cells))


@pytest.mark.wide
def test_rare_labels_are_balanced(db: Connection, dsn: str, tmp_path: Path) -> None:
    without, with_ = recall(db, dsn, tmp_path), recall(db, dsn, tmp_path, balance=True)
    print(f"recall of the rare label on held-out images: {without:.4f}, balanced {with_:.4f}")
    assert with_ > without + 0.15


@pytest.mark.wide
def test_weights_of_labels(db: Connection, dsn: str, tmp_path: Path) -> None:
    """One label of several: images / (labels * its images). Several at once: images without it / with it."""
    job = TrainJob(network(tmp_path, "sigmoid"), f"{LABELS} WHERE id < 100", dsn=dsn, balance=True)
    having = rows(
        db,
        "SELECT count(*) FROM (SELECT unnest(labels) AS x FROM truths WHERE id < 100) y GROUP BY x ORDER BY x",
    )
    assert make_setup(job).job.weights == pytest.approx([(100 - count) / count for (count,) in having])
    one = replace(
        job, data="SELECT img, label % 2, id FROM truths WHERE id < 100 AND (label % 2 = 0 OR id < 30)"
    )
    counts = rows(db, f"SELECT count(*) FROM ({one.data}) AS x(img, label, id) GROUP BY label ORDER BY label")
    total = sum(count for (count,) in counts)
    assert make_setup(one).job.weights == pytest.approx([total / (2 * count) for (count,) in counts])
    with pytest.raises(UsageError, match="balance weighs labels, but the data is for regression"):
        make_setup(replace(job, data=NUMBERS, network=network(tmp_path, None)))


@pytest.mark.wide
def test_it_stops_when_nothing_becomes_better(db: Connection, dsn: str, tmp_path: Path) -> None:
    """Two epochs after the best one; --resume finds the run complete."""
    job = TrainJob(network(tmp_path, "softmax"), "SELECT img, label, id FROM truths WHERE id < 200", dsn=dsn,
                   out=str(tmp_path / "run"), epochs=20, lr=1e-9, early_stop=2)  # fmt: skip
    report = run(job)
    assert (report.best_epoch, len(report.history)) == (1, 3)
    assert len(run(replace(job, resume="last")).history) == 3
    with pytest.raises(UsageError, match="early_stop is 2, but no image validates"):
        run(replace(job, val_fraction=0.0))


@at_length
def test_a_seed_repeats_the_run(db: Connection, dsn: str, tmp_path: Path) -> None:
    job = TrainJob(network(tmp_path, "softmax"), "SELECT img, label, id FROM truths WHERE id < 200", dsn=dsn,
                   out=str(tmp_path / "run"), epochs=2, lr=0.003, augment=True, final="last")  # fmt: skip
    first, second, other = (run(replace(job, seed=seed)).history[-1].values for seed in (3, 3, 4))
    assert first == second
    assert first["loss"] != other["loss"]


@pytest.mark.parametrize("strategy", [*wide("horovod"), *further("mirrored", "downpour", "split")])
def test_every_strategy_learns_several_labels(
    strategy: str, db: Connection, dsn: str, tmp_path: Path
) -> None:
    """Two processes or devices, balanced; all images of the validation count once in what is said of the labels."""
    if strategy == "split":
        pytest.importorskip("jax")
    elif strategy == "horovod":
        check_built("gloo")
    more = {"layout": "all-by-outputs"} if strategy == "split" else {}
    having = "SELECT unnest(labels) AS label FROM truths WHERE id BETWEEN 300 AND 360"
    counts = rows(db, f"SELECT label, count(*) FROM ({having}) x GROUP BY label ORDER BY label")
    job = TrainJob(
        network(tmp_path, None), f"{LABELS} WHERE id < 300", val=f"{LABELS} WHERE id BETWEEN 300 AND 360", dsn=dsn,
        out=str(tmp_path / "run"), strategy=strategy, ranks=2, epochs=2, warmup=0, balance=True, early_stop=1,
        optimizer="adam", **more  # type: ignore[arg-type]
    )  # fmt: skip
    report = run(job)
    assert [(one["label"], one["images"]) for one in report.run["by_label"]] == counts
    assert report.run["config"]["described"]["ending"] == ""


@pytest.mark.wide
def test_a_scale(db: Connection, dsn: str, tmp_path: Path) -> None:
    """An enum is a scale in its own order; what is steps off decides, and `classify` answers with a step."""
    query = f"SELECT img, grade, id FROM truths WHERE id < {COUNT}"
    for run_name in ("first", "second"):
        how = options(tmp_path, run_name, deploy="graded", epochs=12)
        report = dbinfer.train(network(tmp_path, "softmax"), query, how, dsn)
    errors = [epoch.values["val_mean_absolute_error"] for epoch in report.history]
    assert report.best_epoch == errors.index(min(errors)) + 1
    assert ask(
        db, "SELECT manifest->'labels' FROM dbinfer.model_versions WHERE name = 'graded' AND active"
    ) == list(STEPS)
    assert {one["label"] for one in report.run["confusion"]} <= set(STEPS[:4])
    answer = "((dbinfer.classify(img, 'graded')).label)::grade"
    found = f"SELECT grade, {answer} AS found FROM truths WHERE {HELDOUT} OFFSET 0"
    place = "array_position(enum_range(NULL::grade), {})"
    off = ask(
        db, f"SELECT avg(abs({place.format('grade')} - {place.format('found')}))::float FROM ({found}) x"
    )
    print(f"steps off, {COUNT} held-out images: {off:.4f}")
    assert off < 0.6  # the best of all constant answers is 1 step off
    comparison = report.comparison
    assert (comparison.measure, comparison.images) == ("error", len(hold_out(COUNT, 0.1)[1]))
    assert "is off by steps of" in comparison.verdict


def test_a_scale_is_what_the_enum_says(db: Connection, dsn: str, tmp_path: Path) -> None:
    query = "SELECT img, grade, id FROM truths"
    setup = make_setup(TrainJob(network(tmp_path, "softmax"), query, dsn=dsn, balance=True))
    assert (setup.train.source.task, setup.train.source.labels) == ("ordinal", STEPS)
    assert (setup.network.loss, setup.network.metrics) == (
        "sparse_categorical_crossentropy",
        ("mean_absolute_error",),
    )
    assert setup.train.source.counts() == [300, 300, 300, 300, 0]
    setup.close()
    with pytest.raises(TrainError, match="the data is for ordinal, but the network digits is for") as caught:
        make_setup(TrainJob("digits", query, dsn=dsn))
    assert "label::text" in caught.value.hint
    with pytest.raises(
        UsageError, match="ends with sigmoid, but the images of the data have one step of a scale"
    ):
        make_setup(TrainJob(network(tmp_path, "sigmoid"), query, dsn=dsn))
