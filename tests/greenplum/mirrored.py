"""A cluster with mirrors whose primaries may be killed, and Greenplum's own tools that bring it back."""

from __future__ import annotations

import os
import shlex
import socket
import subprocess
import time
from contextlib import closing

import psycopg2
import pytest
from asking import ask, rows

TOOLS = "DBINFER_TEST_GREENPLUM_TOOLS"  # what runs a tool on the coordinator: "sudo -iu gpadmin", "ssh gpadmin@mdw"
REASON = f"{TOOLS} is not set: what runs Greenplum's tools (sudo -iu gpadmin) on a cluster that may be broken"
PATIENCE = 180.0
NEEDED = pytest.mark.skipif(not os.environ.get(TOOLS), reason=REASON)
UNWELL = """
SELECT count(*) FROM gp_segment_configuration
 WHERE content >= 0 AND (status <> 'u' OR mode <> 's' OR role <> preferred_role)"""
NOT_IN_SYNC = (
    "SELECT count(*) FROM gp_segment_configuration WHERE content >= 0 AND (status <> 'u' OR mode <> 's')"
)
ACTING = "SELECT content, hostname, datadir FROM gp_segment_configuration WHERE role = 'p' AND content >= 0 ORDER BY 1"


def tool(*words: str) -> str:
    """Run one of Greenplum's tools, or another program, as its administrator; return what it printed."""
    command = [*shlex.split(os.environ[TOOLS]), *words]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=PATIENCE * 2)
    print(f"{shlex.join(words)}: {done.returncode}")
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def require_mirrors(dsn: str) -> None:
    """Skip where the cluster has no mirrors in sync, or its hosts are others than this one."""
    with closing(psycopg2.connect(dsn)) as db:
        if not ask(db, "SELECT count(*) FROM gp_segment_configuration WHERE role = 'm' AND content >= 0"):
            pytest.skip("the cluster has no mirrors")
        hosts = {row[1] for row in rows(db, ACTING)}
        if hosts != {socket.gethostname()}:
            pytest.skip(f"primaries are on {', '.join(sorted(hosts))}: they cannot be killed from here")
        assert ask(db, UNWELL) == 0, "not all is well before the test: gpstate -e"


def kill_primary(dsn: str, content: int = 0) -> None:
    """Kill -9 the postmaster of a segment."""
    with closing(psycopg2.connect(dsn)) as db:
        folder = {row[0]: row[2] for row in rows(db, ACTING)}[content]
    tool("bash", "-c", f"kill -9 $(head -1 {shlex.quote(folder)}/postmaster.pid)")


def recover(dsn: str) -> None:
    """Bring the primary that was killed back as a mirror, then let the two change roles again."""
    tool("gprecoverseg", "-a")
    wait_until_none(dsn, NOT_IN_SYNC)
    tool("gprecoverseg", "-a", "-r")
    wait_until_none(dsn, UNWELL)


def wait_until_none(dsn: str, query: str) -> None:
    """Wait until a query counts nothing."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            with closing(psycopg2.connect(dsn)) as db:
                if ask(db, query) == 0:
                    return
        except psycopg2.Error as err:
            print(f"not yet: {str(err).strip().splitlines()[0]}")
        assert time.monotonic() < end, query
        time.sleep(1)
