"""A job on a cluster whose client, segment backend and coordinator backend are killed in turns: each row once."""

from __future__ import annotations

import os
import random
import re
import signal
import socket
import subprocess
import time
from contextlib import closing
from pathlib import Path

import figures
import killing
import psycopg2
import pytest
from asking import rows
from killing import KILLS, PATIENCE, ROWS, client, stored, wait_for
from psycopg2.extensions import parse_dsn

from dbinfer.base.errors import DataError
from dbinfer.score import score


@pytest.fixture(scope="module")
def digits(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    killing.make_digits(dsn, tmp_path_factory.mktemp("irs"))
    return dsn


def scoring_on_segments(dsn: str) -> list[int]:
    """Return the processes that score a batch of this database on the segments of this host.

    The others sleep between two batches: whoever loses one of those connects again, and the job goes on.
    """
    wanted = re.compile(rf"\b{re.escape(parse_dsn(dsn)['dbname'])} .*\bseg\d+ .*MPPEXEC INSERT")
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if words.startswith("postgres:") and wanted.search(words):
            found.append(int(process.name))
    return found


def test_killed_at_random_each_row_is_there_once(digits: str) -> None:
    chance = random.Random(7)

    def kill_segment(_: subprocess.Popen[str]) -> None:
        end = time.monotonic() + PATIENCE
        while not (found := scoring_on_segments(digits)):
            assert time.monotonic() < end
        os.kill(chance.choice(found), signal.SIGKILL)

    def kill_coordinator(_: subprocess.Popen[str]) -> None:
        killing.kill_backend(digits)

    deeds = [killing.kill_client] * KILLS
    with closing(psycopg2.connect(digits)) as db:
        hosts = {row[0] for row in rows(db, "SELECT host FROM dbinfer.segments")}
    if hosts == {socket.gethostname()}:
        deeds += [kill_segment, kill_coordinator]
    chance.shuffle(deeds)
    for deed in deeds:
        printed = killing.killed_at(digits, chance.randrange(1, ROWS // (2 * len(deeds) + 4)), deed)
        assert "Traceback" not in printed, printed
    killing.finish(digits, len(deeds))
    figures.record("a job on a cluster, killed", faults=len(deeds), rows=ROWS)


def test_a_second_client_says_that_the_first_is_at_work(digits: str) -> None:
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS killed, killed_errors")
    running = client(digits)
    wait_for(digits, 1, running)
    with pytest.raises(DataError, match="is already scoring into"):
        score("digits", "killed", dsn=digits)
    running.communicate(timeout=PATIENCE * 5)  # a whole job
    assert stored(digits) == ROWS
