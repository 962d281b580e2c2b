"""Databases of released versions, made and used by their own clients: what was there outlives the upgrade, however it
is interrupted, and whoever is at work meanwhile goes on."""

from __future__ import annotations

import json
import os
import queue
import random
import shutil
import signal
import subprocess
import sys
import sysconfig
import threading
import venv as environments
import zipfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import crowd
import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, refused, role, rows
from catalog import another_database, snapshot
from costly_models import slow_model
from engine_processes import title, until
from small_disks import enlarge, small_disk

from dbinfer.base.errors import DbinferError
from dbinfer.base.version import __version__
from dbinfer.install import InstallOptions, install, upgrade
from dbinfer.score import ScoreOptions, score

RELEASED = Path(__file__).parent / "released"
# 0.2.0 was the first that wrote down its upgrades' digests; the other one is the last release
RELEASES = ("0.2.0", "0.8.0")
LAST = RELEASES[-1]
IMAGE = tiny_models.file(tiny_models.picture(1, 2, 3))


class Client:
    """The command `dbinfer` of a release, as its wheel had it, unpacked into a folder."""

    def __init__(self, release: str, folder: Path) -> None:
        self.folder = folder
        # of its own, because some of its processes heed no PYTHONPATH; our packages come after its own
        environments.create(folder, with_pip=False)
        (packages,) = folder.glob("lib/python*/site-packages")
        zipfile.ZipFile(RELEASED / f"dbinfer-{release}-py3-none-any.whl").extractall(packages)
        (packages / "ours.pth").write_text(sysconfig.get_path("purelib"))

    def __call__(self, dsn: str, *words: str, fails: bool = False) -> subprocess.CompletedProcess[str]:
        done = self.python("-m", "dbinfer", *words, dsn=dsn)
        assert bool(done.returncode) == fails, done.stdout + done.stderr
        return done

    def python(self, *words: str, dsn: str = "") -> subprocess.CompletedProcess[str]:
        """Run its Python, in a folder that is no clone, whose packages it would take first."""
        return subprocess.run(
            [str(self.folder / "bin" / "python"), *words],
            check=False, env=os.environ | {"DBINFER_DSN": dsn}, cwd=self.folder, capture_output=True, text=True,
        )  # fmt: skip


Clients = Callable[[str], Client]


@pytest.fixture(scope="module")
def clients(tmp_path_factory: pytest.TempPathFactory) -> Clients:
    """Returns the client of a release."""
    made: dict[str, Client] = {}

    def client(release: str) -> Client:
        if release not in made:
            made[release] = Client(release, tmp_path_factory.mktemp("released"))
        return made[release]

    return client


@pytest.fixture(params=RELEASES)
def client(request: pytest.FixtureRequest, clients: Clients) -> Client:
    return clients(request.param)


@pytest.fixture
def old(server_dsn: str, venv: Path, client: Client, tmp_path: Path) -> Iterator[str]:
    """A database of that release with m@1 (alias first), m@2 = m, secret, and a table that a job has scored."""
    with another_database(server_dsn, "test_released") as dsn:
        with closing(psycopg2.connect(dsn)) as connection, connection:
            rows(connection, "CREATE TABLE public.images (id integer PRIMARY KEY, img bytea)")
            rows(connection, "INSERT INTO public.images SELECT n, %s FROM generate_series(1, 5) n", IMAGE)
        models = [str(tiny_models.constant(tmp_path, number, f"n{number}")) for number in (1, 2, 5)]
        client(dsn, "install", "--venv", str(venv))
        client(dsn, "deploy", models[0], "--name", "m", "--alias", "first")
        client(dsn, "deploy", models[1], "--name", "m")
        client(dsn, "deploy", models[2], "--name", "secret", "--private")
        client(dsn, "score", "--model", "m", "--function", "predict")
        yield dsn


REGISTRY = (
    "SELECT name, version, is_default, versions, aliases, granted_to, size, created_at FROM dbinfer.models",
    "SELECT name, version, active, aliases, digest, manifest, created_by FROM dbinfer.model_versions",
    "SELECT id, role, source, target, state, done, errors FROM dbinfer.jobs",
    "SELECT * FROM public.predictions",
)


@pytest.mark.wide
def test_all_is_as_before_and_goes_on(old: str, client: Client) -> None:
    predict = "SELECT dbinfer.predict(%s, %s)"
    with closing(psycopg2.connect(old)) as session:
        session.autocommit = True
        before = [sorted(map(str, rows(session, query))) for query in REGISTRY]
        assert [len(found) for found in before] == [2, 3, 1, 5]
        assert ask(session, predict, IMAGE, "m") == [2, 2, 2]

        assert upgrade(dsn=old).changed

        assert [sorted(map(str, rows(session, query))) for query in REGISTRY] == before
        # in the session that was open meanwhile
        assert ask(session, predict, IMAGE, "m@first") == [1, 1, 1]
        assert ask(session, predict, IMAGE, "secret") == [5, 5, 5]
        with role(session):
            assert ask(session, predict, IMAGE, "m") == [2, 2, 2]
            refused(session, "42501", predict, IMAGE, "secret")
        rows(session, "INSERT INTO public.images VALUES (6, %s)", IMAGE)
        assert score(options=ScoreOptions(model="m", function="predict"), dsn=old).rows == 1


@pytest.mark.wide
def test_a_client_of_before_is_told_and_sets_nothing_back(old: str, client: Client, tmp_path: Path) -> None:
    upgrade(dsn=old)
    before = snapshot(old)
    model = str(tiny_models.constant(tmp_path, 7))
    for words in (["models"], ["deploy", model], ["score"], ["install"], ["upgrade"]):
        said = " ".join(client(old, *words, fails=True).stderr.split())
        # these took a newer release's functions for those of a stranger
        strange = (
            words[0] in ("install", "upgrade") and "the schemas of dbinfer hold what is not ours" in said
        )
        assert "newer than this client" in said or strange, said
        assert "Traceback" not in said
    assert snapshot(old) == before


@pytest.mark.wide
@pytest.mark.parametrize("way", [["0.2.0"], [LAST], ["0.2.0", LAST]], ids=" ".join)
def test_an_upgraded_database_equals_a_fresh_one(
    server_dsn: str, venv: Path, clients: Clients, way: list[str]
) -> None:
    with another_database(server_dsn, "test_old_2") as old, another_database(server_dsn, "test_new_2") as new:
        clients(way[0])(old, "install", "--venv", str(venv))
        for release in way[1:]:
            clients(release)(old, "upgrade")
        upgrade(dsn=old)
        install(InstallOptions(venv=str(venv)), new)
        assert snapshot(old) == snapshot(new)


JOB = 60
TRIPS = 20_000  # of the slow model: some tenths of a second an image
ENGINES = "SELECT pid FROM dbinfer.engines"


@pytest.mark.wide
def test_whoever_is_at_work_goes_on_while_it_is_upgraded(
    server_dsn: str, venv: Path, clients: Clients, tmp_path: Path
) -> None:
    """Sessions in backends and in the engine, versions that change, and a job of the old client."""
    client = clients(LAST)
    with another_database(server_dsn, "test_rolling") as dsn, closing(psycopg2.connect(dsn)) as db:
        db.autocommit = True
        make_images(db, "many", [IMAGE], crowd.ROWS)
        make_images(db, "images", [IMAGE], JOB)
        rows(db, "ALTER TABLE images ADD PRIMARY KEY (id)")
        rows(db, crowd.WRAPPER)
        client(dsn, "install", "--venv", str(venv))
        for place, name in enumerate(crowd.MODELS, 1):
            for number in (1, 2):
                model = tiny_models.constant(tmp_path, place * crowd.STEP + number, name)
                isolation = "always" if name == "beta" else "never"
                client(dsn, "deploy", str(model), "--name", name, "--isolation", isolation)
        client(dsn, "deploy", str(slow_model(tmp_path, TRIPS)), "--name", "slow")
        others = rows(db, ENGINES)
        ask(db, "SELECT max((dbinfer.predict(img, 'beta'))[1]) FROM many")
        engines = [pid for (pid,) in rows(db, ENGINES) if (pid,) not in others]
        assert engines
        start, told = threading.Event(), queue.Queue()  # type: ignore[var-annotated]
        load = crowd.Crowd(sessions=5, seconds=15, prepare=warm)
        with ThreadPoolExecutor(load.sessions + 1) as pool:
            sessions = [
                pool.submit(crowd.session, dsn, load, number, start, told) for number in range(load.sessions)
            ]
            job = pool.submit(
                client, dsn, "score", "--model", "slow", "--function", "predict", "--batch", "5"
            )
            start.set()
            until(
                lambda: job.done() or rows(db, "SELECT 1 FROM dbinfer.jobs WHERE done > 0"),
                "the job is at work",
            )
            assert not job.done()
            for turn in range(12):
                rows(db, "SELECT dbinfer.activate(%s, %s)", crowd.MODELS[turn % 3], 1 + turn % 2)
                if turn == 5:
                    assert upgrade(dsn=dsn).changed
        assert f"{JOB} rows" in job.result().stdout
        tallies = [told.get() for session in sessions if session.result() is None]
        assert [problem for tally in tallies for problem in tally.problems] == []
        assert min(tally.statements for tally in tallies) > 0
        score(options=ScoreOptions(model="slow", function="predict"), dsn=dsn)
        scored = rows(db, "SELECT prediction[1], count(*), count(DISTINCT id) FROM predictions GROUP BY 1")
        assert scored == [(5.0, JOB, JOB)]
        until(lambda: not any("dbinfer-engine" in title(pid) for pid in engines), "the old engine has ended")


def warm(session: Any, _number: int) -> None:
    rows(session, "SELECT dbinfer.predict(img, 'alpha') FROM many LIMIT 1")


# Runs an upgrade, and kills it before its n-th statement; says how many there were where that is none of them
INTERRUPTED = """
import os, signal, sys
import psycopg2, psycopg2.extensions
from dbinfer.install import upgrade

dsn, at = sys.argv[1], int(sys.argv[2])
done = 0

class Counting(psycopg2.extensions.cursor):
    def execute(self, *words):
        global done
        done += 1
        if done == at:
            os.kill(os.getpid(), signal.SIGKILL)
        return super().execute(*words)

connect = psycopg2.connect
psycopg2.connect = lambda *words, **more: connect(*words, cursor_factory=Counting, **more)
upgrade(dsn=dsn)
print(done)
"""
# of some 340 statements; LONG=1: each
STEPS = 12
SESSIONS = (
    "SELECT pid FROM pg_stat_activity WHERE datname = 'test_interrupted' AND backend_type = 'client backend'"
)
LEFT_KB = (0, 16, 64, 128, 256, 512, 1024, 2048, 4096, 8192)


def interrupted(dsn: str, at: int) -> int:
    """Return how many statements an upgrade has that is not interrupted; 0 for one that is."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED, dsn, str(at)], check=False, capture_output=True, text=True
    )
    assert done.returncode == -signal.SIGKILL if at else done.returncode == 0, done.stderr
    return int(done.stdout or 0)


@contextmanager
def copies(server_dsn: str, of: str) -> Iterator[Callable[[], str]]:
    """Give a function that makes a database anew as a copy of another one, and returns its address."""
    name = "test_interrupted"
    with closing(psycopg2.connect(server_dsn)) as db:
        db.autocommit = True

        def copy() -> str:
            rows(db, f"DROP DATABASE IF EXISTS {name}")
            rows(db, f"CREATE DATABASE {name} TEMPLATE {of}")
            return psycopg2.extensions.make_dsn(server_dsn, dbname=name)

        yield copy
        rows(db, f"DROP DATABASE IF EXISTS {name}")


@pytest.mark.wide
@pytest.mark.timeout(1800)
@pytest.mark.postgres_only("copies a database by its name")
def test_an_upgrade_that_is_killed_at_any_statement_is_none_and_can_be_repeated(
    server_dsn: str, venv: Path, clients: Clients
) -> None:
    with (
        another_database(server_dsn, "test_old_3") as old,
        copies(server_dsn, "test_old_3") as copy,
        closing(psycopg2.connect(server_dsn)) as db,
    ):
        db.autocommit = True
        clients(LAST)(old, "install", "--venv", str(venv))
        before = snapshot(old)
        count = interrupted(copy(), 0)
        upgraded = snapshot(psycopg2.extensions.make_dsn(server_dsn, dbname="test_interrupted"))
        assert upgraded != before
        every = range(1, count + 1)
        chosen = every if os.environ.get("LONG") else sorted({*random.Random(0).sample(every, STEPS), count})
        dsn = copy()
        for at in chosen:
            interrupted(dsn, at)
            # its session ends when it sees that nobody is there
            until(lambda: not rows(db, SESSIONS), "the session has ended")
            found = snapshot(dsn)
            assert found in (before, upgraded), f"killed at statement {at} of {count}"
            if found == upgraded:
                # it was committed before: with its last statements the engines hear of it
                assert at > count - 10
                dsn = copy()
        assert upgrade(dsn=dsn).changed
        assert snapshot(dsn) == upgraded


def refusal(dsn: str) -> str:
    """Return why there was no upgrade; nothing where there was one."""
    try:
        upgrade(dsn=dsn)
    except DbinferError as err:
        return str(err)
    return ""


def refused_upgrades(dsn: str, disk: Path) -> int:
    """Upgrade with ever more room on the disk, until there is enough; return how often there was not."""
    before, filler = snapshot(dsn), disk / "filler"
    for failed, left_kb in enumerate(LEFT_KB):
        filler.write_bytes(bytes(max(0, shutil.disk_usage(disk).free - left_kb * 1024)))
        try:
            said = refusal(dsn)
        finally:
            # before anybody else needs room: a new session's file of catalogs, a checkpoint
            filler.unlink()
        if not said:
            return failed
        # the latter where a session is new and autovacuum has just been at the catalogs
        assert "No space left on device" in said or "could not write init file" in said
        assert snapshot(dsn) == before
    return len(LEFT_KB)


@pytest.fixture
def disk(server_dsn: str) -> Iterator[Path]:
    """A disk of 40 MB that belongs to the server's user."""
    with closing(psycopg2.connect(server_dsn)) as db:
        owner = Path(ask(db, "SHOW data_directory")).stat().st_uid
    with small_disk(40, owner) as made:
        yield made


@pytest.mark.wide
@pytest.mark.postgres_only("makes a tablespace on a small disk")
def test_an_upgrade_for_which_the_disk_is_too_small_is_none_and_can_be_repeated(
    server_dsn: str, venv: Path, clients: Clients, disk: Path
) -> None:
    with closing(psycopg2.connect(server_dsn)) as db:
        db.autocommit = True
        rows(db, "CREATE TABLESPACE test_small LOCATION %s", str(disk))
        try:
            with another_database(server_dsn, "test_full", "TABLESPACE test_small") as dsn:
                clients(LAST)(dsn, "install", "--venv", str(venv))
                try:
                    assert refused_upgrades(dsn, disk) > 2
                finally:
                    # the database is dropped after a checkpoint; what that cannot write, it wants to write for ever
                    enlarge(disk)
                with closing(psycopg2.connect(dsn)) as upgraded:
                    assert ask(upgraded, "SELECT release FROM dbinfer.version") == __version__
        finally:
            rows(db, "DROP TABLESPACE test_small")


# What users call and read: its name, how many arguments it needs, its arguments and its columns in their order
PUBLIC = """
SELECT 'function ' || p.proname || ' returns ' || p.prorettype::regtype, p.pronargs - p.pronargdefaults,
       array_agg(format('%s %s', a.name, a.type::regtype) ORDER BY a.number) FILTER (WHERE coalesce(a.mode, 'i') = 'i'),
       array_agg(format('%s %s', a.name, a.type::regtype) ORDER BY a.number) FILTER (WHERE a.mode <> 'i')
  FROM pg_proc p LEFT JOIN LATERAL ROWS FROM (
       unnest(coalesce(p.proallargtypes, p.proargtypes::oid[])), unnest(p.proargnames), unnest(p.proargmodes)
       ) WITH ORDINALITY AS a (type, name, mode, number) ON true
 WHERE p.pronamespace = 'dbinfer'::regnamespace AND left(p.proname, 1) <> '_'
 GROUP BY p.oid, p.proname, p.prorettype, p.pronargs, p.pronargdefaults
UNION ALL
SELECT CASE c.relkind WHEN 'c' THEN 'type ' ELSE 'view ' END || c.relname, 0, '{}',
       array_agg(format('%s %s', a.attname, a.atttypid::regtype) ORDER BY a.attnum)
  FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
 WHERE c.relnamespace = 'dbinfer'::regnamespace AND c.relkind IN ('c', 'v') AND left(c.relname, 1) <> '_'
 GROUP BY c.relkind, c.relname
"""
COMMANDS = """
import json
import typer.main
from dbinfer.cli.app import app

found = []
waiting = [("dbinfer", typer.main.get_command(app))]
for name, command in waiting:
    found += [name, *(f"{name} {word}" for one in command.params for word in one.opts + one.secondary_opts)]
    waiting += [(f"{name} {word}", one) for word, one in getattr(command, "commands", {}).items()]
print(json.dumps(found))
"""


def public(dsn: str) -> list[tuple[str, int, list[str], list[str]]]:
    with closing(psycopg2.connect(dsn)) as db:
        return [(name, needs, ins or [], outs or []) for name, needs, ins, outs in rows(db, PUBLIC)]


@pytest.mark.wide
def test_what_the_last_release_had_is_still_there(server_dsn: str, venv: Path, clients: Clients) -> None:
    """More arguments and columns may come at the end; docs/how-to/upgrade.md says for how long names stay."""
    with another_database(server_dsn, "test_public") as dsn:
        clients(LAST)(dsn, "install", "--venv", str(venv))
        before = public(dsn)
        upgrade(dsn=dsn)
        after = public(dsn)
    assert len(before) > 50

    def stays(name: str, needs: int, ins: list[str], outs: list[str]) -> bool:
        return any(
            (name, ins, outs) == (now, new_ins[: len(ins)], new_outs[: len(outs)]) and now_needs <= needs
            for now, now_needs, new_ins, new_outs in after
        )

    assert [each for each in before if not stays(*each)] == []
    here = subprocess.run([sys.executable, "-c", COMMANDS], check=True, capture_output=True, text=True)
    old, new = (json.loads(said.stdout) for said in (clients(LAST).python("-c", COMMANDS), here))
    assert len(old) > 300
    assert [word for word in old if word not in new] == []
