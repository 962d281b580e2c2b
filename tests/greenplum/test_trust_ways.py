"""Greenplum's own ways past the coordinator: sessions on a segment, its copies of tables, external tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing

import psycopg2
import pytest
import tiny_models
from asking import refused, role, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

pytestmark = pytest.mark.wide

IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
PAST = (
    "SELECT count(*) FROM gp_dist_random('dbinfer_private.part')",
    "SELECT count(*) FROM gp_dist_random('dbinfer_private.setting')",
    "CREATE EXTERNAL WEB TABLE public.spy (t text) EXECUTE 'id' FORMAT 'text'",
    "CREATE EXTERNAL TABLE public.spy (t text) LOCATION ('file://localhost/etc/passwd') FORMAT 'text'",
    "COPY dbinfer_private.part TO '/tmp/spy<SEGID>' ON SEGMENT",
)


@pytest.fixture
def stranger(cluster: str) -> Iterator[Connection]:
    """A session of a role without any right but to create tables."""
    with closing(psycopg2.connect(cluster)) as db:
        db.autocommit = True
        rows(db, "SELECT dbinfer.revoke_model('constant', 'public')")
        with role(db) as name:
            rows(db, f"RESET ROLE; GRANT CREATE ON SCHEMA public TO {name}; SET ROLE {name}")
            yield db
        rows(db, "SELECT dbinfer.grant_model('constant', 'public')")


def test_greenplums_own_ways_need_the_rights_that_selects_need(stranger: Connection) -> None:
    for query in PAST:
        refused(stranger, "42501", query)


def test_a_session_on_a_segment_admits_nobody_more(stranger: Connection, cluster: str) -> None:
    (name,) = rows(stranger, "SELECT current_user::text")[0]
    port = rows(stranger, "SELECT min(port) FROM gp_segment_configuration WHERE content >= 0")[0][0]
    segment = make_dsn(cluster, port=port, options="-c gp_role=utility")
    with closing(psycopg2.connect(segment)) as db:
        db.autocommit = True
        rows(db, f"SET ROLE {name}")
        refused(db, "42501", "SELECT dbinfer.predict(%s, 'constant')", IMAGE)
        refused(db, "42501", "SELECT count(*) FROM dbinfer_private.part")
        refused(db, "42501", "SELECT dbinfer.set_setting('max_image_scans', '200')")
