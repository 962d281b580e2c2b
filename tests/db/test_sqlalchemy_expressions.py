"""The SQLAlchemy expressions give what the SQL functions give."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import tiny_models
from asking import make_images
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import parse_dsn
from sqlalchemy import URL, Engine, column, create_engine, select, table

from dbinfer import sqlalchemy as infer
from dbinfer.models import deploy

IMAGES = table("images", column("id"), column("img"))
IMG = IMAGES.c.img


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder: Path = tmp_path_factory.mktemp("irs")
    for write in (
        tiny_models.colour_classifier,
        tiny_models.red_mask,
        tiny_models.colour_embedding,
        tiny_models.red_box,
    ):
        deploy(write(folder), dsn=dsn)


@pytest.fixture
def engine(dsn: str, db: Connection) -> Iterator[Engine]:
    make_images(db, "images", [tiny_models.file(tiny_models.picture(200, 0, 0))])
    engine = create_engine(URL.create("postgresql+psycopg2", query=parse_dsn(dsn)))
    yield engine
    engine.dispose()


def value(engine: Engine, expression: object) -> object:
    with engine.connect() as connection:
        return connection.execute(select(expression)).scalar_one()  # type: ignore[call-overload]


def test_fields(engine: Engine) -> None:
    answer = infer.classify(IMG, "colours")
    query = select(IMAGES.c.id, answer.class_, answer.label, answer.score).where(answer.score > 100)
    with engine.connect() as connection:
        assert connection.execute(query).all() == [(0, 0, "red", 200)]
    assert value(engine, infer.image_info(IMG).width) == tiny_models.SIDE
    with pytest.raises(AttributeError, match="width"):
        _ = answer.width


def test_one_call_for_all_fields(engine: Engine) -> None:
    scored = select(infer.to_json(infer.classify(IMG, "colours")).label("p")).offset(0).subquery()
    assert value(engine, scored.c.p["label"].astext) == "red"


@pytest.mark.wide
def test_values(engine: Engine) -> None:
    assert value(engine, infer.predict(IMG, "colours")) == [200, 0, 0]
    tensor = value(engine, infer.predict_tensor(IMG, "colours"))
    assert list(np.frombuffer(tensor, "<f4")) == [200, 0, 0]  # type: ignore[call-overload]
    assert value(engine, infer.embed(IMG, "vector")) == [1, 0, 0]
    mask = value(engine, infer.segment(IMG, "redness"))
    assert (tiny_models.pixels(mask) == 255).all()  # type: ignore[arg-type]
    top = value(engine, infer.classify_top(IMG, 2, "colours"))
    assert next(row["label"] for row in top) == "red"  # type: ignore[attr-defined]
    several = value(engine, infer.classify_all(IMG, "colours"))
    assert [row["label"] for row in several] == ["red"]  # type: ignore[attr-defined]
    (found,) = value(engine, infer.detect(IMG, "redbox"))  # type: ignore[misc]
    assert (found["label"], found["width"], found["height"]) == ("thing", 8, 8)
    assert value(engine, infer.instances(IMG, "redbox")) == [{**found, "mask": None, "points": None}]


def test_on_error(engine: Engine) -> None:
    assert value(engine, infer.predict(b"no image", "colours", on_error="null")) is None
