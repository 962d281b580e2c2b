"""A job whose whole server is killed, postmaster first: started again, the same command completes it."""

from __future__ import annotations

import os
import random
import signal

import figures
import killing
import pytest
from killing import ROWS

from dbinfer import server as embedded

pytestmark = [pytest.mark.wide, pytest.mark.postgres_only("kills a server that is its own")]
KILLS = 3 if killing.LONG else 1


def test_a_job_survives_the_death_of_the_postmaster(
    own_server: embedded.ServerReport, tmp_path_factory: pytest.TempPathFactory
) -> None:
    assert own_server.dsn is not None
    dsn, home = own_server.dsn, own_server.home
    killing.make_digits(dsn, tmp_path_factory.mktemp("irs"))
    chance = random.Random(41)

    def crash(_: object) -> None:
        pid = embedded.status(home).pid
        assert pid is not None
        os.kill(pid, signal.SIGKILL)
        # its orphans end by themselves; `up` waits for them, then the server recovers
        assert embedded.up(home).changed

    for _ in range(KILLS):
        printed = killing.killed_at(dsn, chance.randrange(1, ROWS // (2 * KILLS + 2)), crash)
        assert "Traceback" not in printed, printed
    killing.finish(dsn, KILLS)
    figures.record("postmaster killed under a job", faults=KILLS, rows=ROWS)
