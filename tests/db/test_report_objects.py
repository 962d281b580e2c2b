"""A page on objects that a detector found: counts by class, and images with their boxes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import tiny_models
from asking import rows
from psycopg2.extensions import connection as Connection

import dbinfer
from dbinfer.models import deploy
from dbinfer.report import ReportOptions
from dbinfer.score import ScoreOptions


def test_a_page_on_objects(db: Connection, dsn: str, tmp_path: Path) -> None:
    found = [(1, 1, 5, 5, 0.9, 1), (2, 2, 7, 7, 0.8, 1), (0, 0, 3, 3, 0.7, 0)]
    deploy(tiny_models.boxes(tmp_path, found, labels=["cat", "<dog>"]), dsn=dsn)
    rows(db, "CREATE TABLE public.shots_of_pets (id bigint, img bytea)")
    image = tiny_models.file(np.full((60, 90, 3), 80, np.uint8))
    for number in range(5):
        rows(db, "INSERT INTO public.shots_of_pets VALUES (%s, %s)", number, image)
    done = dbinfer.score("shots_of_pets", "pets", ScoreOptions(model="boxes"), dsn)
    assert (done.function, done.rows) == ("detect", 5)
    out = tmp_path / "pets.html"
    report = dbinfer.report("shots_of_pets", "pets", ReportOptions(out=out), dsn)
    html = out.read_text()
    assert report.rows == 5
    assert "Objects by class" in html
    assert "&lt;dog&gt;" in html
    assert html.count("<b>3 objects</b>") == 5
    assert "<td>10</td>" in html
