"""What doctor says where a segment of the cluster does not answer."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from dbinfer.database.backends import DOWN, check_backends
from dbinfer.database.platform import Platform

CLUSTER = Platform("greenplum", "7.0.0", 12, 3)


class Failed(psycopg2.Error):
    """As the server's error of that SQLSTATE."""

    def __init__(self, sqlstate: str, message: str) -> None:
        super().__init__(message)
        self.sqlstate = sqlstate

    @property
    def pgcode(self) -> str:
        return self.sqlstate


class Session:
    """A connection that knows on how many segments our tables are, and fails at the rest."""

    def __init__(self, segments: int, error: psycopg2.Error) -> None:
        self.segments, self.error = segments, error

    def cursor(self, **options: Any) -> Session:
        return self

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        pass

    def execute(self, query: str) -> None:
        if "gp_distribution_policy" not in query:
            raise self.error

    def fetchone(self) -> tuple[int]:
        return (self.segments,)


def test_a_segment_that_is_down_is_brought_back_with_gprecoverseg(subtests: pytest.Subtests) -> None:
    """It used to say `dbinfer upgrade`."""
    for sqlstate in ["58M01", "57P01", "08006", "XX000"]:
        with subtests.test(sqlstate=sqlstate):
            error = Failed(sqlstate, "failed to acquire resources on one or more segments")
            (check,) = check_backends(Session(3, error), CLUSTER, {})  # type: ignore[arg-type]
            assert (check.name, check.ok, check.hint) == ("segments", False, DOWN)
            assert "gprecoverseg" in check.hint


def test_other_errors_ask_for_an_upgrade() -> None:
    (check,) = check_backends(Session(3, Failed("42883", "no such function")), CLUSTER, {})  # type: ignore[arg-type]
    assert check.hint.startswith("dbinfer upgrade")


def test_an_expansion_that_is_not_finished() -> None:
    (check,) = check_backends(Session(2, Failed("XX000", "never asked")), CLUSTER, {})  # type: ignore[arg-type]
    assert "on 2 of 3 segments" in check.detail
    assert "gpexpand" in check.hint
