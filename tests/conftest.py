"""What all tests share: the servers, a marker for each folder, what is left out and why, the server's version."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import container_engine
import pytest
from servers import (
    db,
    dsn,
    empty_dsn,
    engine_dir,
    installed,
    pytest_runtest_makereport,
    pytest_runtest_protocol,
    server,
    server_dsn,
    session_env,
    venv,
)

# here, not in each folder: there they would be fixtures of their own, each with a server and an environment
__all__ = [
    "db",
    "dsn",
    "empty_dsn",
    "engine_dir",
    "installed",
    "pytest_runtest_makereport",
    "pytest_runtest_protocol",
    "server",
    "server_dsn",
    "session_env",
    "venv",
]

# Tests import openvino before the product does, and would tell its makers of each conversion, from a process of its own
sys.modules["openvino_telemetry"] = None  # type: ignore[assignment]
TESTS = Path(__file__).parent
FOLDERS = {
    "unit": "needs no server",
    "db": "needs PostgreSQL, or Greenplum through DBINFER_TEST_GREENPLUM_DSN",
    "greenplum": "needs a Greenplum cluster: DBINFER_TEST_GREENPLUM_DSN",
    "docker": "needs a container engine",
    "docs": "runs the documentation",
    "trust": "hostile files, faults and load; all of it with LONG=1, else a part",
}
ALONE = {"docker": "its images and containers are the machine's", "greenplum": "there is one cluster"}
LONGEST = ("test_train_", "test_tune_", "test_tour", "test_faults_", "test_jobs_", "test_bench_")
# With ISA=AVX2 or ISA=SSE41 as on a processor that has no more; read by the libraries when they are loaded
ISA = {
    "AVX2": {"OPENCV_CPU_DISABLE": "AVX512-SKX", "XLA_FLAGS": "--xla_cpu_max_isa=AVX2"},
    "SSE41": {"OPENCV_CPU_DISABLE": "AVX512-SKX,AVX2,FP16,AVX", "XLA_FLAGS": "--xla_cpu_max_isa=SSE4_2"},
}
GREENPLUM_DSN = "DBINFER_TEST_GREENPLUM_DSN"
UNTIL = "DBINFER_TEST_UNTIL"  # seconds since 1970, after which no wide test begins
ISOLATION = "DBINFER_TEST_ISOLATION"  # auto, always or never: where the tests' models run


@pytest.fixture(scope="session", autouse=True)
def only_f32() -> Iterator[None]:
    """Deploy open precisions as f32: tests compare with f32, whatever this processor could do besides."""
    from dbinfer.models import precision

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(precision, "precisions", list)
        yield


@pytest.fixture(scope="session", autouse=True)
def known_once() -> Iterator[Callable[[], None]]:
    """Read and try the same files once: each is a process that imports OpenVINO, and tests deploy the same models.

    Yields what forgets them, for a test that deploys thousands.
    """
    from dbinfer.models import precision, prepare
    from dbinfer_udf.model.trial import Result

    really_read, really_try = prepare.understand, precision.try_model
    read, tried = dict[Any, Any](), dict[Any, Result]()

    def understand(path: Path, values: Any, layout: str | None, progress: Any) -> Any:
        files = [file.read_bytes() for file in (path, path.with_suffix(".bin")) if file.is_file()]
        asked = (path.name, *files, repr(sorted(values.items())), layout)
        if asked not in read:
            read[asked] = really_read(path, values, layout, progress)
        return read[asked]

    def try_model(path: Path, prepared: Any, kind: str, limits: Any, sample: Any = None) -> Result:
        asked = (prepared.xml, prepared.bin, kind, limits)
        if sample or asked not in tried:
            tried[asked] = really_try(path, prepared, kind, limits, sample)
        return tried[asked]

    def forget() -> None:
        read.clear()
        tried.clear()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prepare, "understand", understand)
        patch.setattr(precision, "try_model", try_model)
        yield forget


@pytest.fixture(scope="session", autouse=True)
def ports_of_its_own() -> Iterator[None]:
    """Give each of pytest's processes ports that no other takes while a server of its tests is stopped."""
    from dbinfer.server import cluster

    with socket.socket(socket.AF_UNIX) as taken, pytest.MonkeyPatch.context() as patch:
        for first in range(cluster.PORTS.stop, 32000, 50):
            with suppress(OSError):  # another process has them
                taken.bind(
                    f"\0dbinfer-tests-ports-{first}"
                )  # a name without a file, and gone with the process
                break
        patch.setattr(cluster, "PORTS", range(first, first + 50))
        yield


def pytest_configure(config: pytest.Config) -> None:
    # what a shell starts in the background ignores SIGINT, and so would the programs that tests cancel
    signal.signal(signal.SIGINT, signal.default_int_handler)
    limit = os.environ.get("ISA")
    if limit:
        if limit not in ISA:
            raise pytest.UsageError(f"ISA is {limit!r}, but must be one of {', '.join(ISA)}")
        os.environ |= {"OV_CPU_MAX_ISA": limit, "ONEDNN_MAX_CPU_ISA": limit} | ISA[limit]
    for name, meaning in FOLDERS.items():
        config.addinivalue_line("markers", f"{name}: {meaning}")
    config.addinivalue_line(
        "markers", "postgres_only(reason): is left out when the tests run against Greenplum"
    )
    config.addinivalue_line(
        "markers", "alone(reason): wide; runs after the others, with the machine to itself"
    )
    config.addinivalue_line(
        "markers", "wide: a further variant of what another test shows, or minutes; `make test` leaves it out"
    )
    config.addinivalue_line(
        "markers", f"in_backends(reason): is left out where {ISOLATION} = always keeps models out of backends"
    )


def pytest_report_header() -> str:
    if os.environ.get(GREENPLUM_DSN):
        return f"database: {_greenplum_version()}"
    from dbinfer.base.errors import DbinferError
    from dbinfer.server import cluster

    try:
        found = cluster.find()
    except DbinferError as err:
        return f"database: none ({err.message})"
    return (
        f"database: PostgreSQL {found.version} in {found.bindir}, an embedded server of its own for the tests"
    )


def _greenplum_version() -> str:
    import psycopg2

    with psycopg2.connect(os.environ[GREENPLUM_DSN]) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT version()")
        row = cursor.fetchone()
    connection.close()
    return str(row[0]) if row else "unknown"


@pytest.fixture(scope="session", autouse=True)
def _folders_of_all_stay(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """No test opens or closes a folder that it has not made: one closed /tmp to everybody but root."""
    folders = [Path("/tmp"), Path("/var/tmp"), *tmp_path_factory.getbasetemp().parents]
    before = {folder: oct(folder.stat().st_mode) for folder in folders}
    yield
    assert {folder: oct(folder.stat().st_mode) for folder in folders} == before


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    engine = container_engine.lacks() if any(_folder(item) == "docker" for item in items) else ""
    greenplum = bool(os.environ.get(GREENPLUM_DSN))
    if (
        "PYTEST_XDIST_WORKER" in os.environ
    ):  # the longest files first: both processes end at about the same time
        items.sort(key=lambda item: (not item.path.name.startswith(LONGEST), _folder(item) == "unit"))
    for item in items:
        folder = _folder(item)
        if folder in FOLDERS:
            item.add_marker(folder)
        if folder in ALONE:
            item.add_marker(pytest.mark.alone(ALONE[folder]))
        if folder == "docker":
            item.add_marker(pytest.mark.wide)  # images are built for minutes
        if folder == "docker" and engine:
            item.add_marker(pytest.mark.skip(reason=engine))
        if folder == "greenplum" and not greenplum:
            item.add_marker(pytest.mark.skip(reason=f"{GREENPLUM_DSN} is not set"))
        only = item.get_closest_marker("postgres_only")
        if only and greenplum:
            item.add_marker(pytest.mark.skip(reason=f"PostgreSQL only: {only.args[0]}"))
        backends = item.get_closest_marker("in_backends")
        if backends and os.environ.get(ISOLATION) == "always":
            item.add_marker(pytest.mark.skip(reason=f"not with isolation = always: {backends.args[0]}"))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """CI has so many minutes: on a slow machine the last wide tests are left out there, and say so."""
    late = time.time() > float(os.environ.get(UNTIL, "inf"))
    if late and item.get_closest_marker("wide") and not item.get_closest_marker("alone"):
        pytest.skip("no time is left for it on this machine: make test-all")


def _folder(item: pytest.Item) -> str:
    return item.path.relative_to(TESTS).parts[0] if item.path.is_relative_to(TESTS) else ""
