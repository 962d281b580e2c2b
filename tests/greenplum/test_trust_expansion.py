"""gpexpand adds a segment, in both of its phases: what scores in between, what doctor and upgrade say, what it needs.

A cluster cannot be made smaller again: each run leaves one more segment.
"""

from __future__ import annotations

import os
import socket
import uuid
from contextlib import closing
from pathlib import Path

import mirrored
import psycopg2
import pytest
from asking import ask, refused, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError, InstallError
from dbinfer.database.backends import EXPAND, Check
from dbinfer.install import upgrade
from dbinfer.install.doctor import doctor
from dbinfer.install.hosts import cache
from dbinfer.score import ScoreOptions, score

FOLDER = (
    "DBINFER_TEST_GREENPLUM_EXPAND"  # where the new segment's data goes; the administrator may write there
)
REASON = f"{FOLDER} is not set: a folder for the data of a segment by which the cluster grows for good"
pytestmark = [mirrored.NEEDED, pytest.mark.skipif(not os.environ.get(FOLDER), reason=REASON)]
SEGMENTS = "SELECT count(*) FROM gp_segment_configuration WHERE role = 'p' AND content >= 0"
LARGEST = (
    "SELECT max(content) + 1, max(dbid) + 1, max(port) + 1 FROM gp_segment_configuration WHERE content >= 0"
)
MIRRORS = "SELECT count(*) FROM gp_segment_configuration WHERE role = 'm' AND content >= 0"
SCORED = "SELECT count(*) FROM {} WHERE (dbinfer.predict(img, 'constant'))[1] = 7"


def plan(dsn: str, folder: Path) -> str:
    """Return gpexpand's input: one more segment on this host, with a mirror where the others have one."""
    with closing(psycopg2.connect(dsn)) as db:
        content, dbid, port = rows(db, LARGEST)[0]
        roles = "pm" if ask(db, MIRRORS) else "p"
    host = socket.gethostname()
    lines = [
        f"{host}|{host}|{port + n}|{folder}/{role}{content}|{dbid + n}|{content}|{role}"
        for n, role in enumerate(roles)
    ]
    return "\n".join(lines) + "\n"


def wrong(dsn: str) -> list[Check]:
    return [check for check in doctor(dsn).checks if not check.ok]


def test_both_phases_of_gpexpand(cluster: str) -> None:
    folder = Path(os.environ[FOLDER]) / uuid.uuid4().hex[:8]
    listed = folder / "input"
    text = plan(cluster, folder)
    mirrored.tool("bash", "-c", f"mkdir -p {folder} && printf '%s' '{text}' > {listed}")
    with closing(psycopg2.connect(cluster)) as before:
        before.autocommit = True
        segments = ask(before, SEGMENTS)
        assert ask(before, SCORED.format("images")) == 60
        # it makes its archive where it is started
        mirrored.tool("bash", "-c", f"cd {folder} && gpexpand -i {listed}")
        between(cluster, before, segments + 1)
        mirrored.tool("gpexpand", "-d", "1:00:00")
        after(cluster, before, segments + 1)
    mirrored.tool("bash", "-c", "echo n | gpexpand -c")


def between(dsn: str, open_session: Connection, segments: int) -> None:
    """See that what lies on the old segments is scored, and that all say what is to be done for the new one."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        for session in (open_session, db):
            assert ask(session, SCORED.format("images")) == 60
        with pytest.raises(DataError, match="the registry is not on this segment yet"):
            score("images", "between", ScoreOptions(model="colours"), dsn)
        rows(db, "CREATE TABLE wide AS SELECT id + 0 AS id, img FROM images DISTRIBUTED BY (id)")
        diag = refused(db, "55000", SCORED.format("wide"))
        print(diag.message_primary, diag.message_hint)
        assert "gpexpand" in diag.message_hint
    (check,) = wrong(dsn)
    assert f"on {segments - 1} of {segments} segments" in check.detail
    assert check.hint == EXPAND
    with pytest.raises(InstallError, match="was expanded, not redistributed"):
        upgrade(dsn=dsn)


def after(dsn: str, open_session: Connection, segments: int) -> None:
    """See that the new segment has what it needs of the tables alone, and that upgrade counts it."""
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        for session in (open_session, db):
            for table in ("images", "wide"):
                assert ask(session, SCORED.format(table)) == 60
        assert score("images", "between", ScoreOptions(model="colours"), dsn).rows == 60
        assert ask(db, "SELECT count(DISTINCT gp_segment_id) FROM images") == segments
        assert [row[0] for row in rows(db, "SELECT content FROM dbinfer.warm('colours')")] == list(
            range(segments)
        )
    print(report := upgrade(dsn=dsn))
    assert "segments per host are now" in report.message
    assert {one.content for one in cache(dsn=dsn).caches} == {-1, *range(segments)}
    assert wrong(dsn) == []
