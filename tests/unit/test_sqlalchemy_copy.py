"""Expressions can be copied, as SQLAlchemy and pickling do; unknown fields are named."""

from __future__ import annotations

import copy

import pytest
import sqlalchemy as sa

from dbinfer.sqlalchemy import classify


def test_a_call_with_fields_can_be_copied() -> None:
    twin = copy.copy(classify(sa.column("img")))
    assert str(twin.label) == str(classify(sa.column("img")).label)


def test_an_unknown_field_is_named_with_those_that_exist() -> None:
    with pytest.raises(AttributeError, match="'colour' is none of the fields class, label, score"):
        classify(sa.column("img")).colour  # noqa: B018
