"""dbinfer quantize: calibration images from the database, and the result as the next version."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg2
import pytest
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.convert.quantize import QuantizeOptions, quantize
from dbinfer.models import deploy

sys.path.insert(0, str(Path(__file__).parents[1] / "unit"))
from quantize_models import classifier, pictures

pytest.importorskip("nncf")
COUNT = 40


@pytest.fixture(scope="module")
def table(dsn: str) -> str:
    files, labels = pictures(COUNT)
    with psycopg2.connect(dsn) as conn, conn.cursor() as cur:
        cur.execute("CREATE TABLE pictures (id int, img bytea, label text)")
        for i, (file, label) in enumerate(zip(files, labels, strict=True)):
            cur.execute("INSERT INTO pictures VALUES (%s, %s, %s)", (i, psycopg2.Binary(file), label))
        cur.execute("INSERT INTO pictures VALUES (%s, NULL, 'red')", (COUNT,))
    conn.close()
    return "pictures"


def test_an_int8_version_answers_as_the_original(
    db: Connection, dsn: str, table: str, tmp_path: Path
) -> None:
    source, output = classifier(tmp_path), tmp_path / "net-int8.xml"
    deploy(source, dsn=dsn)
    query = f"SELECT img FROM {table} ORDER BY id;"
    check = f"SELECT img, label FROM {table} ORDER BY id"
    report = quantize(source, output, QuantizeOptions(query, check, subset=20), dsn)
    assert (report.calibrated, report.compared) == (20, COUNT)
    assert report.quantized.accuracy == 1.0
    assert deploy(output, dsn=dsn).version == 2
    first, second = (f"(dbinfer.classify(img, 'net@{version}')).class" for version in (1, 2))
    assert ask(db, f"SELECT count(*) FROM pictures WHERE {first} = {second}") == COUNT
    assert ask(db, "SELECT (dbinfer.classify(img, 'net@2')).label = label FROM pictures WHERE id = 0") is True


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT img FROM nowhere", "nowhere"),
        ("SELECT img FROM pictures WHERE false", "no images"),
        ("SELECT label FROM pictures", "must be bytea"),
        ("SELECT 1/0, img FROM pictures", "division by zero"),
        ("DELETE FROM pictures", "failed"),
    ],
)
def test_a_query_that_gives_no_images_is_named(
    db: Connection, dsn: str, table: str, tmp_path: Path, query: str, message: str
) -> None:
    with pytest.raises(DataError, match=message):
        quantize(classifier(tmp_path), tmp_path / "out.xml", QuantizeOptions(query), dsn)
    assert rows(db, f"SELECT count(*) FROM {table}") == [(COUNT + 1,)]


def test_check_needs_labels(dsn: str, table: str, tmp_path: Path) -> None:
    query = f"SELECT img FROM {table}"
    with pytest.raises(DataError, match="two columns"):
        quantize(classifier(tmp_path), tmp_path / "out.xml", QuantizeOptions(query, query), dsn)
