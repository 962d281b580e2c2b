"""Copies of an embedded server that the backup tests make, and a pooler before it."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg2
from asking import ask, rows
from breakable import until
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn, parse_dsn

from dbinfer.score import ScoreOptions, score
from dbinfer.server import ServerReport, cluster
from dbinfer.server.account import server_account

POOLER = """
[databases]
bounced = host={host} port={port} dbname={dbname} user={user} password={password}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {listen}
unix_socket_dir =
auth_type = any
pool_mode = transaction
default_pool_size = {size}
max_client_conn = 50
logfile = {folder}/log
pidfile = {folder}/pid
"""


def program(server: ServerReport, name: str) -> str:
    """Return the path of one of the server's own programs."""
    return str(Path(server.bindir or "", name))


def run(*command: str | Path, dsn: str = "", stdin: bytes | None = None) -> bytes:
    """Run a client program to its good end and return what it printed."""
    done = subprocess.run(
        [*map(str, command), *([dsn] if dsn else [])], input=stdin, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


@contextmanager
def standby(server: ServerReport, folder: Path) -> Iterator[str]:
    """Yield the dsn of a hot standby: a base backup that follows the server."""
    assert server.dsn is not None
    account, data = server_account(), folder / "data"
    account.own_folder(folder, 0o755)
    shutil.copy(server.home / "dbinfer.conf", folder)  # postgresql.conf includes ../dbinfer.conf
    shutil.copy(server.home / "pgpass", folder / "pgpass")
    shutil.chown(folder / "pgpass", account.name)
    source = make_dsn(server.dsn, dbname="", passfile=str(folder / "pgpass"))
    made = account.run([program(server, "pg_basebackup"), "-D", str(data), "-R", "-c", "fast", "-d", source])
    assert made.returncode == 0, made.stderr
    port = cluster.free_port()
    options = f"-p {port} -c unix_socket_directories={folder} -c cluster_name=standby"
    control = [program(server, "pg_ctl"), "-D", str(data), "-w"]
    started = account.run([*control, "start", "-l", str(folder / "log"), "-o", options])
    assert started.returncode == 0, (folder / "log").read_text()
    try:
        yield make_dsn(server.dsn, host=str(folder), port=port)
    finally:
        account.run([*control, "stop", "-m", "immediate"])


@contextmanager
def pooler(server: ServerReport, folder: Path, size: int) -> Iterator[str]:
    """Yield the dsn of a pgbouncer in transaction mode with `size` connections to the server."""
    account, listen = server_account(), cluster.free_port()
    account.own_folder(folder, 0o755)
    values = parse_dsn(server.dsn or "")
    password = Path(values["passfile"]).read_text().strip().rsplit(":", 1)[1]
    config = folder / "pgbouncer.ini"
    config.write_text(
        POOLER.format(
            host=values["host"],
            port=values["port"],
            dbname=values["dbname"],
            user=values["user"],
            password=password,
            listen=listen,
            size=size,
            folder=folder,
        )
    )
    user = ["-u", account.name] if os.geteuid() == 0 else []
    process = subprocess.Popen([shutil.which("pgbouncer", path=SBIN) or "", *user, str(config)])
    dsn = make_dsn(host="127.0.0.1", port=listen, dbname="bounced", user="anybody")
    try:
        until(lambda: process.poll() is not None or _answers(dsn), "the pooler answers")
        assert process.poll() is None, (folder / "log").read_text()
        yield dsn
    finally:
        process.terminate()
        process.wait(60)


SBIN = f"{os.environ.get('PATH', '')}{os.pathsep}/usr/sbin"


def _answers(dsn: str) -> bool:
    try:
        psycopg2.connect(dsn).close()
    except psycopg2.OperationalError:
        return False
    return True


def attempt(*command: str | Path) -> None:
    """Run a client program that may report errors and go on."""
    subprocess.run([*map(str, command)], capture_output=True, check=False)


def the_job_goes_on(db: Connection, dsn: str) -> None:
    """See that results, bad rows and the job came along, and that the next job scores what is new alone."""
    assert rows(db, "SELECT version, count(*) FROM found GROUP BY 1") == [(2, 10)]
    assert ask(db, "SELECT count(*) FROM found_errors WHERE reason ~ 'not an image'") == 10
    assert rows(db, "SELECT state, target, done, errors FROM dbinfer.jobs") == [
        ("lost", "public.found", 20, 10)
    ]
    before = ask(db, "SELECT max(id) FROM dbinfer.jobs")
    rows(db, "INSERT INTO scanned SELECT 100, img FROM scanned WHERE id = 0")
    report = score("scanned", "found", ScoreOptions(model="open"), dsn)
    assert (report.rows, report.errors) == (1, 0)
    assert report.job is not None
    assert report.job > before
