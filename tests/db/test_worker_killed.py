"""Each row once: workers that are killed, stopped for longer than their lease, cut off, and that work side by side."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, rows
from bare_server import bare_server
from psycopg2.extensions import make_dsn, parse_dsn
from workers import DAMAGED, PATIENCE, kill, make_digits, processes, start, stored, tables_only, until

import dbinfer

LONG = os.environ.get("LONG") == "1"
ROWS, KILLS = (20_000, 20) if LONG else (3_000, 5)
LEASE = ("--lease", "2")
JOB = ("--table", "digits", "--into", "answers", "--model", "colours", "--batch", "20", *LEASE)


@pytest.fixture(scope="module")
def bare() -> Iterator[str]:
    with bare_server() as dsn:
        yield dsn


@pytest.fixture(scope="module")
def digits(bare: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with tables_only(bare) as dsn:
        dbinfer.deploy(tiny_models.colour_classifier(tmp_path_factory.mktemp("irs")), dsn=dsn)
        make_digits(dsn, ROWS)
        dbinfer.score("digits", "undisturbed", dbinfer.ScoreOptions(model="colours"), dsn)
        yield dsn


@pytest.fixture(autouse=True)
def fresh(digits: str) -> None:
    """No results yet; note which jobs were there before."""
    with closing(psycopg2.connect(digits)) as db, db:
        rows(db, "DROP TABLE IF EXISTS answers, answers_errors, before_this_test")
        rows(db, "CREATE TABLE before_this_test AS SELECT max(id) AS last FROM dbinfer.jobs")


def finished(dsn: str, *workers: subprocess.Popen[str]) -> list[str]:
    """Wait for the workers, and see that each row is there once, as if nothing had happened; return what they said."""
    said = [worker.communicate(timeout=PATIENCE * 4)[0] for worker in workers]
    assert {worker.returncode for worker in workers} <= {0}, said
    with closing(psycopg2.connect(dsn)) as db:
        for table, columns in (("", "id, class, label, score"), ("_errors", "id, reason")):
            # not by EXCEPT ALL, for which ORCA takes NULLs for different
            one, other = (
                rows(db, f"SELECT {columns} FROM {name}{table} ORDER BY id")
                for name in ("answers", "undisturbed")
            )
            assert one == other
        counted = "SELECT sum(done), sum(errors) FROM dbinfer.jobs WHERE target LIKE '%.answers' AND id > "
        first = ask(db, "SELECT last FROM before_this_test")
        assert rows(db, counted + str(first)) == [(ROWS, len(range(7, ROWS + 1, DAMAGED)))]
    return said


@pytest.mark.wide
def test_two_side_by_side_share_one_job(digits: str) -> None:
    said = finished(digits, *[start(digits, *JOB, "--concurrency", "1") for _ in range(2)])
    assert all('"job"' in each for each in said)
    with closing(psycopg2.connect(digits)) as db:
        assert ask(db, "SELECT count(*) FROM dbinfer.jobs WHERE target LIKE '%.answers' AND done > 0") >= 1


@pytest.mark.wide
def test_killed_at_random_moments(digits: str) -> None:
    chance = random.Random(25)
    for number in range(KILLS):
        both = [start(digits, *JOB, "--concurrency", "1") for _ in range(2)]
        wanted = stored(digits) + chance.randrange(1, ROWS // (KILLS + 2))
        until(lambda: stored(digits) >= wanted, "they score")  # noqa: B023
        time.sleep(chance.uniform(0.0, 0.1))
        kill(both[0])
        # now and then nobody is left, and then and now one that had a word
        if number % 2:
            kill(both[1])
        else:
            both[1].terminate()
            both[1].communicate(timeout=PATIENCE)
    assert stored(digits) < ROWS
    finished(digits, *[start(digits, *JOB, "--concurrency", "1") for _ in range(2)])


@pytest.mark.wide
def test_a_lane_that_crashes_is_started_again(digits: str) -> None:
    worker = start(digits, *JOB, "--concurrency", "1")
    until(lambda: stored(digits) > 0, "it scores")
    (lane,) = processes(worker)
    os.kill(lane, signal.SIGKILL)
    finished(digits, worker)


@pytest.mark.wide
def test_stopped_for_longer_than_its_lease(digits: str) -> None:
    """Others take over what it holds; when it wakes, it finds that out, writes nothing twice, and goes on."""
    first = start(digits, *JOB, "--concurrency", "1")
    until(lambda: stored(digits) > 0, "it scores")
    lanes = processes(first)
    for _ in range(3):
        for pid in lanes:
            os.kill(pid, signal.SIGSTOP)
        second = start(digits, *JOB, "--concurrency", "1")
        before = stored(digits)
        until(lambda: stored(digits) > before or second.poll() is not None, "the other one scores")  # noqa: B023
        time.sleep(2.5)
        for pid in lanes:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        kill(second) if second.poll() is None else second.communicate()
    finished(digits, first)


def test_what_is_held_is_taken_over_though_the_clock_was_set_back(digits: str) -> None:
    """By more than a day, which no lease lasts: the moments that are kept lie ten years ahead then."""
    begin = time.monotonic()
    later = "UPDATE dbinfer_private.batch SET until = until + interval '10 years' RETURNING number"

    def held() -> int:
        with closing(psycopg2.connect(digits)) as db:
            return int(ask(db, "SELECT count(*) FROM dbinfer_private.batch"))

    while True:
        first = start(digits, *JOB, "--concurrency", "1")
        until(held, "it has a batch")
        kill(first)
        # it waits for the server, which may be about to end the batch
        with closing(psycopg2.connect(digits)) as db, db:
            if rows(db, later):
                break
        assert time.monotonic() < begin + PATIENCE, "it held nothing when it was killed"
    finished(digits, start(digits, *JOB, "--concurrency", "1"))


@pytest.mark.wide
def test_a_worker_that_is_told_to_end_writes_what_it_has(digits: str) -> None:
    worker = start(digits, *LEASE, "--concurrency", "1")
    job = start(digits, *JOB, "--concurrency", "1")
    until(lambda: stored(digits) > 0, "they score")
    worker.terminate()
    worker.communicate(timeout=60)
    assert worker.returncode == 128 + signal.SIGTERM
    finished(digits, job)


class Wire:
    """A way to the server's socket that can be cut, and mended."""

    def __init__(self, server: str) -> None:
        values = parse_dsn(server)
        self._host, self._port = str(values["host"]), int(values["port"])
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._whole = threading.Event()
        self._whole.set()
        self._ends: list[socket.socket] = []
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = self._reached()
                self._pairs.append((client, server))
                self._ends += client, server
                for one, other in ((client, server), (server, client)):
                    threading.Thread(target=self._carry, args=(one, other), daemon=True).start()

    def _reached(self) -> socket.socket:
        if not self._host.startswith("/"):
            return socket.create_connection((self._host, self._port))
        server = socket.socket(socket.AF_UNIX)
        server.connect(f"{self._host}/.s.PGSQL.{self._port}")
        return server

    def _carry(self, one: socket.socket, other: socket.socket) -> None:
        with suppress(OSError):
            while data := one.recv(1 << 16):
                self._whole.wait()
                other.sendall(data)
        for end in (one, other):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)

    @contextmanager
    def cut(self, ends: bool) -> Iterator[None]:
        """Carry nothing meanwhile; `ends`: nobody hears of the old connections again."""
        self._whole.clear()
        yield
        if ends:
            for pair in self._pairs:
                for end in pair:
                    with suppress(OSError):
                        end.shutdown(socket.SHUT_RDWR)
            self._pairs.clear()
        self._whole.set()

    def close(self) -> None:
        for end in (self._listener, *self._ends):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()


@pytest.mark.parametrize(
    "ends", [pytest.param(True, id="lost"), pytest.param(False, id="late", marks=pytest.mark.wide)]
)
def test_a_worker_that_loses_its_network(digits: str, ends: bool) -> None:
    with closing(Wire(digits)) as wire:
        far = start(make_dsn(digits, host="127.0.0.1", port=wire.port), *JOB, "--concurrency", "1")
        until(lambda: stored(digits) > 0, "it scores")
        with wire.cut(ends):
            near = start(digits, *JOB, "--concurrency", "1")
            before = stored(digits)
            until(lambda: stored(digits) > before, "the other one scores")
            time.sleep(60 if LONG else 3)
        finished(digits, near, far)


@pytest.mark.postgres_only("a segment's row does not say which transaction has written it")
@pytest.mark.wide
def test_rows_that_change_while_they_are_scored_are_scored_again(digits: str, tmp_path: Path) -> None:
    """A result belongs to the image that was there when it was written."""
    dbinfer.deploy(tiny_models.loop(tmp_path, 20_000, "slow"), dsn=digits)
    with closing(psycopg2.connect(digits)) as db:
        db.autocommit = True
        rows(db, "DROP TABLE IF EXISTS changing, of_changing, of_changing_errors")
        rows(db, "CREATE TABLE changing AS SELECT id, img FROM digits WHERE id BETWEEN 10 AND 60")
        rows(db, "ALTER TABLE changing ADD PRIMARY KEY (id)")
        worker = start(
            digits, "--table", "changing", "--into", "of_changing", "--model", "slow", "--batch", "51"
        )
        until(
            lambda: ask(db, "SELECT count(*) FROM dbinfer.jobs WHERE target LIKE '%.of_changing'"),
            "it begins",
        )
        time.sleep(1.0)
        rows(db, "UPDATE changing SET img = img WHERE id = 11")
        rows(db, "DELETE FROM changing WHERE id = 12")
        said = worker.communicate(timeout=PATIENCE)[0]
        assert worker.returncode == 0, said
        late = (
            "SELECT count(*) FROM of_changing d JOIN changing s USING (id) WHERE age(s.xmin) <= age(d.xmin)"
        )
        assert ask(db, late.replace("<=", "<")) == 0
        assert ask(db, "SELECT count(*) FROM of_changing JOIN changing USING (id)") == 50
