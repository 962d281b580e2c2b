"""Networks with several outputs: convert names them, `predict(output => ...)` returns one of them, `outputs` all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import PLANS, ask, make_images, planned_as, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.convert import ConvertOptions, convert
from dbinfer.models import DeployOptions, deploy

IMAGE = tiny_models.file(tiny_models.picture(200, 30, 10))


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    deploy(tiny_models.two_outputs(folder), dsn=dsn)
    for write in (tiny_models.gaps, tiny_models.red_mask, tiny_models.colour_embedding, tiny_models.red_box):
        deploy(write(folder), dsn=dsn)
    return folder


def test_an_output_by_its_name(db: Connection) -> None:
    assert ask(db, "SELECT dbinfer.predict(%s, 'two', output => 'largest')", IMAGE) == [200]
    assert ask(db, "SELECT dbinfer.predict(%s, 'two', output => 'mean')", IMAGE) == [200, 30, 10]
    data = ask(db, "SELECT dbinfer.predict_tensor(%s, 'two', output => 'largest')", IMAGE)
    assert np.frombuffer(data, "<f4").tolist() == [200]


def test_calls_without_a_name_are_what_they_were(db: Connection) -> None:
    for call in (
        "%s, 'two'",
        "%s, 'two', 'error'",
        "%s, model => 'two', on_error => 'null'",
        "%s, 'two', 'error', NULL",
    ):
        assert ask(db, f"SELECT dbinfer.predict({call})", IMAGE) == [200, 30, 10]
    rows(db, "SELECT dbinfer.set_default('two')")
    assert ask(db, "SELECT dbinfer.predict(%s)", IMAGE) == [200, 30, 10]
    assert ask(db, "SELECT dbinfer.predict(%s, output => 'largest')", IMAGE) == [200]
    assert ask(db, "SELECT dbinfer.predict('x', 'two', 'null', 'largest')") is None
    assert ask(db, "SELECT dbinfer.predict(NULL, 'two', 'error', 'nothing')") is None


def test_all_outputs(db: Connection) -> None:
    query = 'SELECT name, shape, "values" FROM dbinfer.outputs(%s, %s)'
    found = [("mean", [1, 3], [200, 30, 10]), ("largest", [1, 1, 1, 1], [200])]
    assert rows(db, query, IMAGE, "two") == found
    assert rows(db, query, IMAGE, "colours") == [(None, [1, 3], [200, 30, 10])]
    assert (
        ask(db, "SELECT \"values\"::text FROM dbinfer.outputs(%s, 'gaps')", IMAGE)
        == "{NaN,Infinity,-Infinity}"
    )
    query = (
        'SELECT shape, "values" = dbinfer.predict(%s, %s), cardinality("values") FROM dbinfer.outputs(%s, %s)'
    )
    for model in ("redness", "vector", "redbox"):
        ((shape, same, size),) = rows(db, query, IMAGE, model, IMAGE, model)
        assert same
        assert size == np.prod(shape)
    assert ask(db, "SELECT count(*) FROM dbinfer.outputs(NULL, 'two')") == 0
    assert ask(db, "SELECT count(*) FROM dbinfer.outputs('no image', 'two', 'null')") == 0
    refused(db, "22P03", "SELECT * FROM dbinfer.outputs('no image', 'two')")
    refused(db, "22023", "SELECT * FROM dbinfer.outputs(%s, 'two', 'ignore')", IMAGE)
    refused(db, "42704", "SELECT * FROM dbinfer.outputs(%s, 'none')", IMAGE)


@pytest.mark.parametrize("plan", PLANS)
def test_all_outputs_of_the_rows_of_a_table(db: Connection, plan: str) -> None:
    make_images(db, "all_outputs", [IMAGE, tiny_models.file(tiny_models.picture(1, 2, 3)), None], 20)
    query = (
        "SELECT o.name, count(*), sum(o.\"values\"[1]) FROM public.all_outputs, dbinfer.outputs(img, 'two') o "
        'GROUP BY o.name ORDER BY o.name COLLATE "C"'
    )
    assert rows(planned_as(db, plan), query) == [("largest", 40, 20 * 203), ("mean", 40, 20 * 201)]
    # a name from the rows picks the output again
    query = (
        "SELECT count(*) FROM public.all_outputs, dbinfer.outputs(img, 'two') o "
        "WHERE o.\"values\" = dbinfer.predict(img, 'two', output => o.name)"
    )
    assert ask(db, query) == 80


@pytest.mark.parametrize(
    ("model", "output", "said"),
    [
        ("two", "least", 'model "two" has no output "least": its outputs are mean, largest'),
        ("two", "", 'model "two" has no output "": its outputs are mean, largest'),
        ("colours", "mean", 'model "colours" has no output "mean": it has one, which needs no name'),
    ],
)
def test_a_wrong_name_gets_a_sentence(db: Connection, model: str, output: str, said: str) -> None:
    diag = refused(db, "22023", "SELECT dbinfer.predict(%s, %s, output => %s)", IMAGE, model, output)
    assert (diag.message_primary or "").startswith(f"dbinfer: {said}")
    assert "output => 'name'" in (diag.message_hint or "")


def test_an_output_of_every_row_of_a_table(db: Connection) -> None:
    """Names from columns, two outputs in one statement, and the plan of a scan."""
    make_images(db, "several", [IMAGE, tiny_models.file(tiny_models.picture(1, 2, 3)), None], 20)
    query = (
        "SELECT sum((dbinfer.predict(img, 'two', output => 'largest'))[1]), sum((dbinfer.predict(img, 'two'))[3]) "
        "FROM public.several"
    )
    assert rows(db, query) == [(20 * (200 + 3), 20 * (10 + 3))]
    query = "SELECT n, dbinfer.predict(%s, 'two', output => n) FROM (VALUES ('mean'), ('largest')) v(n) ORDER BY n"
    assert rows(db, query, IMAGE) == [("largest", [200]), ("mean", [200, 30, 10])]


@pytest.mark.wide
def test_an_ir_of_another_tool_has_its_outputs_by_name(dsn: str, db: Connection, models: Path) -> None:
    """Deployed as it is, and converted with the outputs chosen, in another order."""
    foreign = tiny_models.two_outputs(models, "foreign", foreign=True)
    deploy(foreign, dsn=dsn)
    assert ask(db, "SELECT dbinfer.predict(%s, 'foreign', output => 'largest')", IMAGE) == [200]
    values = {"task": "tensor", "scale": [1.0]}
    options = ConvertOptions(output_name=("largest", "mean"), values=values)
    report = convert(foreign, models / "turned.xml", options)
    assert report.manifest.outputs == ("largest", "mean")
    deploy(report.output, DeployOptions(name="turned"), dsn=dsn)
    assert ask(db, "SELECT dbinfer.predict(%s, 'turned')", IMAGE) == [200]
    assert ask(db, "SELECT dbinfer.predict(%s, 'turned', output => 'mean')", IMAGE) == [200, 30, 10]
