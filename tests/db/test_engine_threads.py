"""A model that asks for more threads than the host has cores is scored, and does not wait for tokens for ever."""

from __future__ import annotations

from pathlib import Path

import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection

from dbinfer.models import DeployOptions, deploy

pytestmark = pytest.mark.wide

IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))


def test_more_threads_than_cores(dsn: str, db: Connection, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 7), DeployOptions(isolation="always"), dsn=dsn)
    rows(db, "SELECT dbinfer.set_setting('threads', '64')")
    rows(db, "SET statement_timeout = '60s'")
    try:
        assert ask(db, "SELECT dbinfer.predict(%s, 'constant')", IMAGE) == [7, 7, 7]
    finally:
        rows(db, "SELECT dbinfer.set_setting('threads', 'auto')")


@pytest.mark.parametrize("isolation", ["never", "always"])
def test_a_small_network_takes_one_thread_of_an_idle_host(
    isolation: str, dsn: str, db: Connection, tmp_path: Path
) -> None:
    """A lone session may have all cores: 250 us of processor time an image became 500, and none came sooner."""
    deploy(tiny_models.convolution(tmp_path), DeployOptions(isolation=isolation), dsn=dsn)
    rows(db, "SET max_parallel_workers_per_gather = 0")
    # on segments, where there are any: the view does not show the coordinator
    make_images(db, "images", [IMAGE], 12)
    found = rows(db, "SELECT (dbinfer.profile(img, 'conv')->>'threads')::integer FROM images")
    assert found == [(1,)] * 12
    # a place of a cluster that has not scored yet says what one may take there
    held = rows(db, "SELECT threads FROM dbinfer.segments WHERE models::text LIKE '%conv%'")
    assert set(held) == {(1,)}
