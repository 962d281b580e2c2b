"""Obstacles that a test's server cannot have: no PL/Python, a server that refuses, versions compared by number."""

from __future__ import annotations

from typing import Any

import psycopg2
import pytest

from dbinfer.base.errors import InstallError, RegistryError
from dbinfer.database.connection import Installed, _numbers
from dbinfer.database.platform import Features, Platform
from dbinfer.install import steps
from dbinfer.models.registry import split


class Cursor:
    """A cursor of a server that has no PL/Python."""

    def __init__(self, error: type[psycopg2.Error]) -> None:
        self.error = error

    def execute(self, sql: str, values: Any = None) -> None:
        if sql.startswith("CREATE EXTENSION"):
            raise self.error

    def fetchone(self) -> tuple[int]:
        return (0,)


@pytest.mark.parametrize("error", [psycopg2.errors.UndefinedFile, psycopg2.errors.FeatureNotSupported])
def test_a_server_without_plpython_names_the_package(error: type[psycopg2.Error]) -> None:
    with pytest.raises(InstallError, match="does not have PL/Python") as caught:
        steps.make_extension(Cursor(error), Platform("postgresql", "15.4", 150004, 0))  # type: ignore[arg-type]
    assert "postgresql-plpython3-15" in caught.value.hint
    features = Features(("segments in a catalog",), ())
    with pytest.raises(InstallError) as caught:
        steps.make_extension(Cursor(error), Platform("greenplum", "7.1", 120012, 4, "", features))  # type: ignore[arg-type]
    # Debian's package is another server's
    assert "apt-get" not in caught.value.hint


@pytest.mark.parametrize(
    ("reference", "expected"), [("digits@1", ("digits", 1)), ("a.b-c_d@999999999", ("a.b-c_d", 999999999))]
)
def test_references_split(reference: str, expected: tuple[str, int]) -> None:
    assert split(reference) == expected


def test_references_that_name_no_version(subtests: pytest.Subtests) -> None:
    for reference in ["digits", "digits@", "@1", "digits@x", "digits@1@2", "digits@²", "digits@-1", "a@1 "]:
        with (
            subtests.test(reference=reference),
            pytest.raises(RegistryError, match="does not name a version"),
        ):
            split(reference)


def test_versions_compare_by_number() -> None:
    assert Installed("99.0.0", 0).order == 1
    assert _numbers("0.10.0") > _numbers("0.9.1")
