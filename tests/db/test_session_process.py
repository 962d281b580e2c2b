"""The backend as a process: signals, threads, sockets, cancel, timeouts, memory of what it keeps."""

from __future__ import annotations

import os
import pwd
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows, without_timeout
from engine_processes import threads
from psycopg2.extensions import connection as Connection
from servers import ISOLATION
from variants import wide

from dbinfer.models import DeployOptions, deploy

pytestmark = pytest.mark.postgres_only("looks at processes of this machine")
PHOTO = tiny_models.file(tiny_models.picture(200, 30, 10, size=(400, 300)), "JPEG")
SLOW = (
    "SELECT count(dbinfer.predict(img || int4send(n), 'conv')) FROM public.photos, generate_series(1, 5000) n"
)
MUST_BE_BLOCKED = (
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGALRM,
    signal.SIGHUP,
)


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    # never: on a busy machine the trial may find them slow, and then the engine runs them
    isolation = os.environ.get(ISOLATION) or "never"
    deploy(tiny_models.convolution(folder), DeployOptions(isolation=isolation), dsn=dsn)
    other = tiny_models.convolution(folder, "other", seed=3)
    deploy(other, DeployOptions(name="other", isolation=isolation), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        make_images(connection, "photos", [PHOTO], copies=20)


@pytest.fixture
def scoring(db: Connection) -> Iterator[int]:
    """The pid of a backend that scores for as long as the test runs, with four threads."""
    rows(db, "SELECT dbinfer_private.set_setting('threads', '4')")
    rows(db, "SET max_parallel_workers_per_gather = 0")
    pid = ask(db, "SELECT pg_backend_pid()")
    ask(db, "SELECT count(dbinfer.predict(img, 'conv')) FROM public.photos")
    thread = threading.Thread(target=_until_cancelled, args=(db,))
    thread.start()
    yield pid
    while thread.is_alive():  # a cancel before the query has begun is lost
        db.cancel()
        thread.join(0.2)
    rows(db, "SELECT dbinfer_private.set_setting('threads', 'auto')")


def _until_cancelled(db: Connection) -> None:
    with pytest.raises(psycopg2.errors.QueryCanceled):
        rows(db, SLOW)


@pytest.mark.in_backends("a backend that asks the engine has no threads of OpenVINO's")
def test_only_the_main_thread_receives_the_databases_signals(scoring: int) -> None:
    others = [facts for thread, facts in threads(scoring).items() if thread != scoring]
    assert others
    for facts in others:
        blocked = int(facts["SigBlk"], 16)
        assert [s.name for s in MUST_BE_BLOCKED if not blocked >> (s - 1) & 1] == [], facts["Name"]
    deadline = time.monotonic() + 60
    # closed while the model is loaded, which a new statement may do again; open for as long as rows are scored
    while (closed := _closed(scoring)) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert closed == []


def _closed(pid: int) -> list[str]:
    main = int(threads(pid)[pid]["SigBlk"], 16)
    return [s.name for s in MUST_BE_BLOCKED if main >> (s - 1) & 1]


def test_no_thread_is_pinned_to_a_core(scoring: int) -> None:
    allowed = {facts["Cpus_allowed_list"] for facts in threads(scoring).values()}
    assert allowed == {threads(os.getpid())[os.getpid()]["Cpus_allowed_list"]}


def _sockets(pid: int) -> list[str]:
    targets = []
    for number in os.listdir(f"/proc/{pid}/fd"):
        target = os.readlink(f"/proc/{pid}/fd/{number}")
        if target.startswith("socket:"):
            targets.append(target)
    return sorted(targets)


def test_no_telemetry(db: Connection) -> None:
    pid = ask(db, "SELECT pg_backend_pid()")
    before = _sockets(pid)
    ask(db, "SELECT dbinfer.predict(%s, 'conv')", PHOTO)
    assert _sockets(pid) == before
    account = pwd.getpwuid(Path(f"/proc/{pid}").stat().st_uid)
    assert not (Path(account.pw_dir) / "intel").exists()
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text()
    assert children == ""


def test_pg_cancel_backend(db: Connection, dsn: str) -> None:
    pid = ask(db, "SELECT pg_backend_pid()")

    thread = threading.Thread(target=_until_cancelled, args=(db,))
    thread.start()
    with closing(psycopg2.connect(dsn)) as other:
        while thread.is_alive():
            ask(other, "SELECT pg_cancel_backend(%s)", pid)
            thread.join(0.2)
    assert ask(db, "SELECT count(dbinfer.predict(img, 'conv')) FROM public.photos") == 20


@pytest.mark.parametrize("workers", ["2", *wide("0")])
def test_statement_timeout(db: Connection, workers: str) -> None:
    rows(db, f"SET max_parallel_workers_per_gather = {workers}; SET parallel_setup_cost = 0")
    rows(db, "SET min_parallel_table_scan_size = 0")
    for milliseconds in (50, 150, 400):
        rows(db, f"SET statement_timeout = {milliseconds}")
        _until_cancelled(db)
        without_timeout(db)
        assert ask(db, "SELECT count(dbinfer.predict(img, 'conv')) FROM public.photos") == 20


@pytest.mark.wide
def test_a_timeout_during_the_first_row_leaves_the_session_well(dsn: str) -> None:
    for milliseconds in (5, 20, 40, 80, 120, 160, 200, 300):
        with closing(psycopg2.connect(dsn)) as connection:
            connection.autocommit = True
            rows(connection, f"SET statement_timeout = {milliseconds}")
            with suppress(psycopg2.errors.QueryCanceled):
                ask(connection, "SELECT dbinfer.predict(%s, 'conv')", PHOTO)
            without_timeout(connection)
            assert len(ask(connection, "SELECT dbinfer.predict(%s, 'conv')", PHOTO)) == 10


@pytest.mark.wide
def test_a_terminated_backend_is_gone_and_the_server_goes_on(db: Connection, dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as victim:
        pid = ask(victim, "SELECT pg_backend_pid()")
        ask(victim, "SELECT dbinfer.predict(%s, 'conv')", PHOTO)
        timer = threading.Timer(1, lambda: ask(db, "SELECT pg_terminate_backend(%s)", pid))
        timer.start()
        with pytest.raises(psycopg2.OperationalError):
            rows(victim, SLOW)
        timer.join()
    assert len(ask(db, "SELECT dbinfer.predict(%s, 'conv')", PHOTO)) == 10


@pytest.mark.wide
def test_memory_stays_where_it_is_over_many_rows(db: Connection) -> None:
    rows(db, "SET max_parallel_workers_per_gather = 0")
    pid = ask(db, "SELECT pg_backend_pid()")
    query = "SELECT count(dbinfer.predict(img || int4send(n), 'conv')) FROM public.photos, generate_series(1, 30) n"

    def megabytes() -> float:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    ask(db, query)
    before = megabytes()
    for _ in range(3):
        ask(db, query)
    assert megabytes() - before < 10


@pytest.mark.wide
def test_memory_stays_where_it_is_over_many_statements(db: Connection) -> None:
    pid = ask(db, "SELECT pg_backend_pid()")

    def statements() -> float:
        for _ in range(300):
            ask(db, "SELECT dbinfer.predict(%s, 'conv')", PHOTO)
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    before = statements()
    assert statements() - before < 10


@pytest.mark.wide
def test_the_precision_and_threads_are_those_that_are_said(db: Connection, dsn: str, tmp_path: Path) -> None:
    for precision in ("f32", "bf16"):
        path = tiny_models.convolution(tmp_path, "exact")
        deploy(path, DeployOptions(values={"precision": precision}), dsn=dsn)
        facts = ask(db, "SELECT dbinfer.profile(%s, 'exact')", PHOTO)
        assert facts["precision"] in (precision, "f32")
    rows(db, "SELECT dbinfer_private.set_setting('threads', '1')")
    assert ask(db, "SELECT dbinfer.profile(%s, 'exact')", PHOTO)["threads"] == 1
    rows(db, "SELECT dbinfer_private.set_setting('threads', 'auto')")
