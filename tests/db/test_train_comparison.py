"""A new version against the active one by SQL: every kind of truth, and what cannot be compared."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing

import cv2
import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import ask, refused, role, rows
from psycopg2.extensions import connection as Connection

import dbinfer
from dbinfer.train.comparison import Version, active_version, compare
from dbinfer.train.data import find_source
from dbinfer.train.query import Snapshot
from dbinfer.train.report import Comparison
from dbinfer.train.setup import Rows

COUNT = 40
LABELS = tuple(tiny_models.COLOURS)


@pytest.fixture(scope="module")
def db(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    """Images that are mostly red, with a mask of their right half, and models that look for red, or do not look."""
    folder = tmp_path_factory.mktemp("compared")
    for name, ir in [
        ("colours", tiny_models.colour_classifier(folder, "looks", threshold=0.5)),
        ("colours", tiny_models.constant(folder, 0.25, "blind", task="classification", labels=LABELS)),
        ("masks", tiny_models.red_mask(folder, "sees")),
        ("masks", tiny_models.red_mask(folder, "strict", threshold=0.9)),
        ("numbers", tiny_models.constant(folder, 2.0, "two")),
        ("numbers", tiny_models.constant(folder, 3.0, "three")),
        ("unnamed", tiny_models.constant(folder, 0.25, "nameless", task="classification")),
        ("unnamed", tiny_models.colour_classifier(folder, "unnamed", labels=[])),
    ]:
        dbinfer.deploy(ir, dbinfer.DeployOptions(name=name), dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(
            connection,
            "CREATE TABLE compared (id int PRIMARY KEY, img bytea, mask bytea, label text, labels text[], number real)",
        )
        for number in range(COUNT):
            data, mask = picture(number)
            label = LABELS[number % 2]
            values = (number, data, mask, label, [label], 2.0 + number % 3 / 10)
            rows(connection, "INSERT INTO compared VALUES (%s, %s, %s, %s, %s, %s)", *values)
        yield connection


def picture(number: int) -> tuple[bytes, bytes]:
    """Return an image, red or green, brighter on its right half, and a mask of that half."""
    image, mask = np.zeros((8, 8, 3), np.uint8), np.zeros((8, 8), np.uint8)
    mask[:, 4:] = 255
    image[..., 2 - number % 2] = 60 + number
    image[:, 4:, 2 - number % 2] = 200
    return tuple(bytes(cv2.imencode(".png", one)[1]) for one in (image, mask))  # type: ignore[return-value]


def compared(dsn: str, query: str, name: str) -> Comparison:
    """Compare version 1 of a model with version 2, which is active, on the rows of a query."""
    snapshot = Snapshot(dsn)
    try:
        source, active = find_source(query, snapshot), active_version(name, dsn)
        assert active is not None
        new = active._replace(reference=f"{name}@1")
        return compare(new, active, Rows(source, range(source.count())), dsn, lambda step: None)
    finally:
        snapshot.close()


def test_one_class(db: Connection, dsn: str) -> None:
    """The one that looks is always right; the other always says red."""
    found = compared(dsn, "SELECT img, label, id FROM compared", "colours")
    assert (found.images, found.new, found.old, found.new_better, found.old_better) == (40, 1.0, 0.5, 20, 0)
    assert found.verdict.endswith(
        "that only one gets right, colours@1 has 20: better with 99.9 % confidence (McNemar)."
    )


@pytest.mark.wide
def test_several_labels_numbers_and_masks(db: Connection, dsn: str) -> None:
    """The scores are means of grey levels, all above 0.5 where there is any colour."""
    several = compared(dsn, "SELECT img, labels, id FROM compared", "colours")
    assert (several.measure, several.new, several.old) == ("f1", 1.0, 0.0)
    number = compared(dsn, "SELECT img, number, id FROM compared", "numbers")
    assert (number.measure, number.new, number.old) == ("error", pytest.approx(0.0975), pytest.approx(0.9025))
    assert number.verdict.startswith(
        "Of 40 images numbers@1 has mean error 0.0975, the active numbers@2 0.9025; "
    )
    assert number.verdict.endswith(
        "on 40 images, numbers@2 on 0: better with more than 99.9 % confidence (bootstrap)."
    )
    # red is 200 on one half, which is more than half of 255, and less than 0.9 of it
    masks = compared(dsn, "SELECT img, mask, id FROM compared WHERE id % 2 = 0", "masks")
    assert (masks.measure, masks.images, masks.new, masks.old) == ("dice", 20, 1.0, 0.0)


@pytest.mark.wide
def test_labels_that_one_does_not_know(db: Connection, dsn: str) -> None:
    query = "SELECT img, CASE WHEN id = 0 THEN 'pink' ELSE label END, id FROM compared"
    found = compared(dsn, query, "colours")
    assert (found.images, found.new, found.old) == (40, 0.975, 0.475)
    assert found.verdict.endswith(
        " colours@2 does not know the labels pink, where its answers count as wrong."
    )


@pytest.mark.wide
def test_what_cannot_be_compared(db: Connection, dsn: str, subtests: pytest.Subtests) -> None:
    classes = "SELECT img, label, id FROM compared"
    boxes = """SELECT img, '[{"label": "red", "x": 1, "y": 1, "width": 5, "height": 5}]'::json, id FROM compared"""
    for query, name, why in [
        (f"{classes} WHERE id = 1", "colours", "1 images validate, which tell nothing"),
        (boxes, "colours", "boxes are judged by a query, see dbinfer judge"),
        (classes, "unnamed", "that one knows none of the labels"),
        ("SELECT img, 'pink'::text, id FROM compared", "colours", "that one knows none of the labels"),
        (
            "SELECT 'none'::bytea, label, id FROM compared",
            "colours",
            "0 images of the validation could be scored",
        ),
    ]:
        with subtests.test(why=why):
            found = compared(dsn, query, name)
            assert found.verdict.startswith(f"{name}@1 was not compared with {found.active}: {why}")
            assert found.measure == ""
    new, old = (
        Version(f"colours@{number}", task, LABELS) for number, task in ((1, "tensor"), (2, "classification"))
    )
    for one, other, why in [
        (
            new,
            old,
            "colours@1 was not compared with colours@2: that one is for classification, and this one for tensor",
        ),
        (old, old, "colours@2 was not compared with colours@2: it is the active version itself"),
        (new._replace(task=old.task), old, "colours@1 was not compared with colours@2: 0 images validate"),
        (
            Version("masks@1", "segmentation", LABELS),
            Version("masks@2", "segmentation", ()),
            "masks@1 was not compared with masks@2: its masks have no named classes, and those of this one 3",
        ),
        (new, None, "there was no active version to compare colours@1 with"),
    ]:
        with subtests.test(why=why):
            assert compare(one, other, None, dsn, lambda step: None).verdict.startswith(why)


@pytest.mark.wide
def test_who_may_keep_a_comparison(db: Connection) -> None:
    """Administrators, of versions that there are, and nothing but an object."""
    call = "SELECT dbinfer._keep_comparison(%s, %s, %s)"
    for name, version, value, sentence in [
        ("colours", 7, "{}", 'model "colours" has no version or alias "7"'),
        ("nobody", 1, "{}", 'model "nobody" does not exist'),
        ("colours", 1, "[]", "a comparison of versions must be a JSON object"),
        ("colours", 1, None, "a comparison of versions must be a JSON object"),
    ]:
        with pytest.raises(psycopg2.Error, match=sentence):
            rows(db, call, name, version, value)
    shown = "SELECT manifest FROM dbinfer.model_versions WHERE name = 'colours' AND version = 1"
    before = ask(db, shown)
    for verdict in ("better", "worse"):
        rows(db, call, "colours", 1, json.dumps({"verdict": verdict}))
        after = ask(db, shown)
        assert after.pop("provenance") == {"training": {"comparison": {"verdict": verdict}}}
        assert after == {key: value for key, value in before.items() if key != "provenance"}
    with role(db):
        refused(db, "42501", call, "colours", 1, "{}")
