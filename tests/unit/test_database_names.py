"""Names of tables and columns as users type them."""

from __future__ import annotations

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.database.sql import TableName, column


def test_tables(subtests: pytest.Subtests) -> None:
    for text, schema, name in [
        ("images", None, "images"),
        ("Images", None, "images"),
        ("Shop.Images", "shop", "images"),
        ('"Shop"."My ""best"" images"', "Shop", 'My "best" images'),
        ('"a.b"', None, "a.b"),
    ]:
        with subtests.test(text=text, schema=schema, name=name):
            assert TableName.parse(text) == TableName(schema, name)


def test_no_tables(subtests: pytest.Subtests) -> None:
    for text in ["", "a.b.c", ".", "a.", '"a', "x" * 64, 'a"b', "a\0b"]:
        with subtests.test(text=text), pytest.raises(UsageError, match="not a table's name"):
            TableName.parse(text)


def test_what_is_shown_can_be_typed() -> None:
    for name in (TableName("shop", "images"), TableName("Shop", 'a "b".c'), TableName(None, "x y")):
        assert TableName.parse(str(name)) == name


def test_columns() -> None:
    assert (column("Img"), column('"Img"')) == ("img", "Img")
    with pytest.raises(UsageError, match="not a column's name"):
        column("a.b")
