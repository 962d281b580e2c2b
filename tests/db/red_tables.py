"""Tables of red and blue pictures, with the network that tells them apart: how many are red is known."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg2
import tiny_models
from asking import rows

from dbinfer.models import deploy

RED = "(dbinfer.classify(img, 'colours')).label = 'red'"


def red_table(dsn: str, folder: Path, name: str, statement: str) -> None:
    """Make a table by a statement that takes the red and the blue picture, and deploy the network from a folder."""
    deploy(tiny_models.colour_classifier(folder), dsn=dsn)
    red, blue = (tiny_models.file(tiny_models.picture(*rgb)) for rgb in ((255, 0, 0), (0, 0, 255)))
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, statement, red, blue)
        rows(db, f"ANALYZE public.{name}")
