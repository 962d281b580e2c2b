"""docs/how-to/large-images.md: its statements give what is shown."""

from __future__ import annotations

import subprocess
from contextlib import closing
from pathlib import Path

import numpy as np
import psycopg2
import pytest
import tiny_models
import tour
from asking import rows

from dbinfer.models import deploy

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "large-images.md"
STEPS = [step for step in tour.steps(PAGE) if step.kind == "sql"]


def slide() -> bytes:
    """Return 200 x 160 pixels: a ground of blue, two red cells and a fibre."""
    pixels = np.full((160, 200, 3), (20, 20, 90), np.uint8)
    for left, top, width, height in ((20, 20, 12, 12), (105, 70, 12, 12), (10, 140, 180, 9)):
        pixels[top : top + height, left : left + width] = (250, 60, 60)
    return tiny_models.file(pixels, "TIFF", compression="tiff_lzw")


@pytest.fixture(scope="module")
def slides(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = tmp_path_factory.mktemp("irs")
    deploy(tiny_models.red_box(folder, "cells", 64), dsn=dsn)
    deploy(tiny_models.red_mask(folder, "tissue", 64), dsn=dsn)
    deploy(tiny_models.colour_classifier(folder, "stains"), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection, connection:
        rows(connection, "CREATE TABLE public.slides (id integer, img bytea)")
        rows(connection, "INSERT INTO public.slides VALUES (1, %s)", slide())
    return dsn


@pytest.mark.wide
def test_the_statements_give_what_is_shown(slides: str, subtests: pytest.Subtests) -> None:
    assert len(STEPS) == 3
    for step in STEPS:
        with subtests.test(str(step)):
            command = ["psql", "-X", "-v", "ON_ERROR_STOP=1", "-c", step.source, slides]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            assert tour.alike(step, done.stdout), done.stdout + done.stderr
