"""sample: images that are at hand arrive in a table with what they show, once."""

from __future__ import annotations

import psycopg2
import pytest
from typer.testing import CliRunner

import dbinfer
from dbinfer.base.errors import UsageError
from dbinfer.cli.app import app
from dbinfer.images.builtin import stroke_files, written
from dbinfer.images.sample import KINDS


@pytest.mark.parametrize("name", sorted(KINDS))
def test_sample_images_arrive_once(dsn: str, db: psycopg2.extensions.connection, name: str) -> None:
    count = None if name == "digits" else 3
    options = dbinfer.SampleOptions(table=f"sample_{name}", count=count)
    first, second = (dbinfer.sample(name, options, dsn) for _ in range(2))
    assert (first.loaded, first.skipped) == (second.skipped, second.loaded) == (count or 359, 0)
    with db.cursor() as cursor:
        cursor.execute(f"SELECT img, {first.truth} FROM sample_{name} ORDER BY path LIMIT 3")
        rows = [tuple(bytes(v) if isinstance(v, memoryview) else v for v in row) for row in cursor.fetchall()]
        cursor.execute(f"SELECT count(*) FROM sample_{name} WHERE {first.truth} IS NULL")
        assert cursor.fetchone() == (0,)
    if name == "written":
        assert rows == [(one.image, one.boxes) for one in written("heldout", range(3))]
    elif name == "strokes":
        assert rows == list(stroke_files("heldout", range(3)))
    else:
        assert [label for _, label in rows] == ["0", "0", "0"]


def test_the_command_says_how_many(dsn: str) -> None:
    shown = CliRunner().invoke(app, ["sample", "written", "--table", "by_hand", "--count", "2", "--dsn", dsn])
    assert shown.output.strip().endswith("by_hand: 2 loaded, 0 there already; boxes")


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("cars", {}, "there are no sample images 'cars'; there are digits, strokes, written"),
        ("written", {"count": 0}, "count is 0, but must be at least 1"),
        ("written", {"part": "test"}, "part is 'test', but must be one of train, heldout"),
        ("strokes", {"part": "test"}, "part is 'test', but must be one of train, heldout"),
        ("digits", {"count": 3}, "digits cannot have a count"),
    ],
)
def test_what_is_not_there(dsn: str, name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        dbinfer.sample(name, dbinfer.SampleOptions(**options), dsn)  # type: ignore[arg-type]
