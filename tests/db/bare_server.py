"""A PostgreSQL without PL/Python: this machine's programs beside extensions among which it is missing."""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import psycopg2
import pytest
from asking import rows
from common_folders import common_folder
from psycopg2.extensions import make_dsn

from dbinfer.server import cluster
from dbinfer.server.account import Account, server_account

CLUSTER = "DBINFER_TEST_GREENPLUM_DSN"


def on_cluster() -> bool:
    """Return whether the tests run against a cluster."""
    return bool(os.environ.get(CLUSTER))


@contextmanager
def bare_server() -> Iterator[str]:
    """Yield the dsn of a superuser; the server is gone at the end.

    Where the tests run against a cluster, it is that one: databases there have no PL/Python until a superuser makes it.
    """
    if on_cluster():
        _require_logins(os.environ[CLUSTER])
        yield os.environ[CLUSTER]
        return
    with common_folder("bare") as folder:
        account, programs = server_account(), _programs(folder)
        sockets, data = folder / "sockets", folder / "data"
        for path in (sockets, data):
            account.own_folder(path, 0o700)
        _must(account, str(programs / "initdb"), "-D", str(data), "-U", "postgres", "-A", "trust", "-N")
        options = f"-c listen_addresses='' -c unix_socket_directories={sockets} -c fsync=off -p 5432"
        control = (str(programs / "pg_ctl"), "-D", str(data), "-w")
        _must(account, *control, "-o", options, "-l", str(data / "log"), "start")
        try:
            # the folder of the socket is the server's alone
            sockets.chmod(0o711)
            yield f"host={sockets} port=5432 user=postgres dbname=postgres"
        finally:
            _must(account, *control, "-m", "immediate", "stop")


def _require_logins(dsn: str) -> None:
    """Skip where a role without a password may not log in, as the tests' roles have none."""
    role = f"caller_{uuid.uuid4().hex[:8]}"
    with closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        rows(db, f"CREATE ROLE {role} LOGIN")
        try:
            psycopg2.connect(make_dsn(dsn, user=role)).close()
        except psycopg2.OperationalError as err:
            pytest.skip(f"roles without a password may not log in to this cluster: {err}".strip())
        finally:
            rows(db, f"DROP ROLE {role}")


def _must(account: Account, *command: str) -> None:
    done = account.run(list(command))
    assert done.returncode == 0, done.stderr + done.stdout


def _programs(folder: Path) -> Path:
    """Lay out an installation in a folder; a server finds its extensions by where its own program lies."""
    found = cluster.find()
    where = Path(*found.bindir.parts[-4:])  # lib/postgresql/15/bin
    there = folder / where
    there.mkdir(parents=True)
    for name in ("postgres", "initdb", "pg_ctl"):
        # copied: the path of the real file counts
        shutil.copy2(found.bindir / name, there / name)
    (there.parent / "lib").symlink_to(found.bindir.parent / "lib")
    share = folder / "share" / Path(*where.parts[1:-1])
    real = found.bindir.parents[3] / "share" / Path(*where.parts[1:-1])
    shutil.copytree(real, share, ignore=shutil.ignore_patterns("plpython3u*"))
    return there
