"""docker/database in 512 MB and one core: its settings fit, and a session without memory gets an error."""

from __future__ import annotations

import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, refused
from containers import docker, free_port
from costly_models import deep_model, weighty_model
from outside import facts
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

SESSIONS = 6
LIMITS = ("--memory", "512m", "--memory-swap", "512m", "--cpus", "1")
IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))
PREDICT = "SELECT dbinfer.predict(%s, 'deep')"
LAYERS = 11  # 104 MB of weights, as ResNet-50 has
HUNGRY = 100  # MB of weights, for which OpenVINO takes 2.4 GB


@pytest.fixture(scope="module")
def small(database_image: str) -> Iterator[str]:
    """A container with these limits; its name."""
    name = f"dbinfer-test-{uuid.uuid4().hex[:8]}"
    port = f"127.0.0.1:{free_port()}:5432"
    docker("run", "-d", "--name", name, *LIMITS, "-p", port, database_image)
    try:
        deadline = time.monotonic() + 180
        while docker("inspect", "-f", "{{.State.Health.Status}}", name).strip() != "healthy":
            assert time.monotonic() < deadline, docker("logs", name)
            time.sleep(0.5)
        yield name
    finally:
        print(docker("logs", "--tail", "80", name))
        docker("rm", "-f", "-v", name)


@pytest.fixture(scope="module")
def small_dsn(small: str, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The database in it, with a model as large as ResNet-50."""
    password = docker("exec", small, "cat", "/var/lib/dbinfer/password").strip()
    host, port = docker("port", small, "5432").splitlines()[0].rsplit(":", 1)
    dsn = make_dsn(host=host, port=port, user="dbinfer", dbname="dbinfer", password=password)
    facts(dsn, "deploy", str(deep_model(tmp_path_factory.mktemp("irs"), LAYERS)))
    return dsn


def backend(dsn: str) -> Connection:
    connection = psycopg2.connect(dsn)
    connection.autocommit = True
    return connection


def score(db: Connection, seen: list[str]) -> None:
    try:
        seen.append("answer" if ask(db, PREDICT, IMAGE) == [2, 2, 2] else "wrong answer")
    except psycopg2.Error as err:
        seen.append(str(err.diag.sqlstate or err))


def test_the_settings_fit_the_limits(small_dsn: str) -> None:
    with closing(backend(small_dsn)) as db:
        assert ask(db, "SHOW shared_buffers") == "64MB"
        assert ask(db, "SHOW max_parallel_workers") == "1"
        assert ask(db, PREDICT, IMAGE) == [2, 2, 2]
        assert ask(db, "SELECT threads FROM dbinfer.segments") == 1


def isolate(dsn: str, isolation: str) -> None:
    """Let models run in the backends (never) or, where it pays, in the host's engine (auto)."""
    with closing(backend(dsn)) as db:
        ask(db, "SELECT dbinfer_private.set_setting('isolation', %s)", isolation)


@pytest.mark.parametrize(
    ("isolation", "together", "outcomes"),
    [
        ("never", False, {"answer", "53200"}),
        ("never", True, {"answer", "53200"}),
        # the engine shares one copy, so all may find room; none must be killed
        ("auto", True, {"answer"}),
    ],
    ids=["one after the other", "at one moment", "one engine for all"],
)
def test_a_session_without_memory_gets_an_error_and_no_backend_is_killed(
    small: str, small_dsn: str, isolation: str, together: bool, outcomes: set[str]
) -> None:
    """Before: a backend was killed, and with it every session of the database was lost."""
    isolate(small_dsn, isolation)
    seen: list[str] = []
    with ExitStack() as stack:
        sessions = [stack.enter_context(closing(backend(small_dsn))) for _ in range(SESSIONS)]
        threads = [threading.Thread(target=score, args=(db, seen)) for db in sessions]
        for thread in threads:
            thread.start()
            if not together:
                thread.join()
        for thread in threads:
            thread.join()
        print(f"{small}: {dict(Counter(seen))}")
        assert outcomes <= set(seen) <= {"answer", "53200"}
        # all of them live, and those that hold the model go on
        again = [ask(db, "SELECT 1") for db in sessions]
        assert again == [1] * SESSIONS
    assert "terminated by signal 9" not in docker("logs", small)
    with closing(backend(small_dsn)) as db:
        assert ask(db, PREDICT, IMAGE) == [2, 2, 2]


@pytest.mark.parametrize("isolation", ["never", "auto"])
def test_a_model_that_takes_all_memory_when_it_is_tried_ends_nobody(
    small: str, small_dsn: str, tmp_path: Path, isolation: str
) -> None:
    """Before: the kernel ended the trial and the backend that waited for it, and every session was lost."""
    isolate(small_dsn, isolation)
    facts(small_dsn, "deploy", str(weighty_model(tmp_path, HUNGRY, f"hungry_{isolation}")))
    with closing(backend(small_dsn)) as holder, closing(backend(small_dsn)) as other:
        assert ask(holder, PREDICT, IMAGE) == [2, 2, 2]
        for _ in range(2):
            diag = refused(other, "53200", "SELECT dbinfer.predict(%s, %s)", IMAGE, f"hungry_{isolation}")
            assert "memory" in diag.message_primary
        assert ask(holder, PREDICT, IMAGE) == [2, 2, 2]
    assert "terminated by signal 9" not in docker("logs", small)
