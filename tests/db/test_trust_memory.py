"""A session that would pass the bound of memory gets an error, and the others go on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused
from psycopg2.extensions import connection as Connection

from dbinfer.install import InstallOptions, install
from dbinfer.models import deploy

pytestmark = pytest.mark.wide

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
A_TERABYTE = 1 << 20  # megabytes


@pytest.fixture
def short_of_memory(dsn: str) -> Iterator[None]:
    """A bound that no host can keep, so that every further model is too much."""
    yield install(InstallOptions(min_free_mb=A_TERABYTE), dsn)
    install(InstallOptions(min_free_mb=64), dsn)


def test_a_session_that_would_pass_the_bound_gets_an_error(
    db: Connection, dsn: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    deploy(tiny_models.convolution(tmp_path, "sound"), dsn=dsn)
    right = ask(db, "SELECT dbinfer.predict(%s)", IMAGE)
    request.getfixturevalue("short_of_memory")
    with closing(psycopg2.connect(dsn)) as further:
        further.autocommit = True
        diag = refused(further, "53200", "SELECT dbinfer.predict(%s)", IMAGE)
        assert "of memory, but only" in diag.message_primary
        assert "min_free_mb" in diag.message_detail
    install(InstallOptions(min_free_mb=64), dsn)
    assert ask(db, "SELECT dbinfer.predict(%s)", IMAGE) == right
