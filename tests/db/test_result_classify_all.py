"""Several classes of one image: `classify_all` returns those that reach their threshold."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import ConvertError, ModelFileError
from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import DeployOptions, deploy
from dbinfer.report import ReportOptions, report
from dbinfer.score import ScoreOptions, score

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))
OTHER = tiny_models.file(tiny_models.picture(90, 255, 0))
QUERY = "SELECT t.label, t.score FROM unnest(dbinfer.classify_all(%s, %s)) t"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    for name, values in {
        "one": {"threshold": 20.0},
        "each": {"thresholds": [100.0, 25.0, 0.0]},
        "high": {"threshold": 300.0},
        "shares": {"activation": "softmax"},
        "several": {"activation": "sigmoid", "thresholds": [0.9, 0.9, 1.0], "labels": []},
    }.items():
        deploy(tiny_models.colour_classifier(folder, name, **values), dsn=dsn)
    deploy(tiny_models.probability(folder, labels=["other", "red"]), dsn=dsn)
    return folder


def test_the_classes_that_reach_their_threshold(db: Connection) -> None:
    assert rows(db, QUERY, IMAGE, "one") == [("red", 200), ("green", 30)]
    assert rows(db, QUERY, OTHER, "one") == [("green", 255), ("red", 90)]
    assert rows(db, QUERY, IMAGE, "each") == [("red", 200), ("green", 30), ("blue", 10)]
    assert rows(db, QUERY, OTHER, "each") == [("green", 255), ("blue", 0)]
    assert ask(db, "SELECT dbinfer.classify_all(%s, 'high')::text", IMAGE) == "{}"
    # of a softmax, which the others share, at most one reaches a half
    assert rows(db, QUERY, IMAGE, "shares") == [("red", 1)]
    # a sigmoid lets several; without labels they have their numbers
    found = rows(db, "SELECT t.class, t.label FROM unnest(dbinfer.classify_all(%s, 'several')) t", IMAGE)
    assert found == [(0, None), (1, None)]
    # one probability, of the second of two classes
    assert [label for label, _ in rows(db, QUERY, IMAGE, "probability")] == ["red"]
    assert [label for label, _ in rows(db, QUERY, OTHER, "probability")] == ["other"]


def test_no_image_and_bad_ones(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.classify_all(NULL, 'one') IS NULL") is True
    assert ask(db, "SELECT dbinfer.classify_all('no image', 'one', 'null') IS NULL") is True
    refused(db, "22P03", "SELECT dbinfer.classify_all('no image', 'one')")


@pytest.mark.parametrize("plan", PLANS)
def test_rows_of_a_table(db: Connection, plan: str) -> None:
    make_images(db, "several", [IMAGE, OTHER, None], 20)
    query = (
        "SELECT (t).label, count(*) FROM (SELECT unnest(dbinfer.classify_all(img, 'each')) AS t FROM public.several) s "
        'GROUP BY (t).label ORDER BY (t).label COLLATE "C"'
    )
    assert rows(planned_as(db, plan), query) == [("blue", 40), ("green", 40), ("red", 20)]


def test_a_job_and_its_report(dsn: str, db: Connection, tmp_path: Path) -> None:
    """In batches, with rows that have no class."""
    make_images(db, "scanned", [IMAGE, OTHER, tiny_models.file(tiny_models.picture(0, 0, 0))], 40)
    done = score(
        "public.scanned", "public.found", ScoreOptions(model="one", function="classify_all"), dsn=dsn
    )
    assert (done.rows, done.nulls, done.function) == (120, 0, "classify_all")
    query = (
        "SELECT count(*) FROM public.scanned s JOIN public.found f ON f.id = s.id "
        "WHERE f.classes::text = dbinfer.classify_all(s.img, 'one')::text"
    )
    assert ask(db, query) == 120
    assert ask(db, "SELECT count(*) FROM public.found WHERE classes = '{}'") == 40
    page = report("public.scanned", "public.found", ReportOptions(out=tmp_path / "page.html"), dsn)
    assert page.rows == 120


def test_as_many_thresholds_as_classes(dsn: str, models: Path) -> None:
    with pytest.raises(
        ModelFileError, match=r"thresholds is \(0.5, 0.5\), but must be one number for each of the 3 labels"
    ):
        deploy(models / "one.xml", DeployOptions(values={"thresholds": [0.5, 0.5]}), dsn=dsn)
    with pytest.raises(ModelFileError, match=r"several\.xml has 3 classes, but 2 thresholds"):
        deploy(models / "several.xml", DeployOptions(values={"thresholds": [0.5, 0.5]}), dsn=dsn)


def test_convert_takes_them(models: Path) -> None:
    foreign = models / "one.xml"
    values = {"thresholds": [0.5, 0.25, 0.75], "scale": [1.0]}
    made = convert(foreign, models / "told.xml", ConvertOptions(values=values))
    assert made.manifest.thresholds == (0.5, 0.25, 0.75)
    again = convert(made.output, models / "again.xml", ConvertOptions())
    assert again.manifest.thresholds == (0.5, 0.25, 0.75)
    with pytest.raises(ConvertError, match="must be one number for each of the 3 labels"):
        convert(foreign, models / "wrong.xml", ConvertOptions(values={"thresholds": [0.5]}))
