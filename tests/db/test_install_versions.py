"""A client and a database of different versions: every command that needs dbinfer says so, with what mends it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
import typer.main
from asking import ask, role, rows
from catalog import another_database, snapshot
from released_version import Release

from dbinfer.base.errors import DataError, InstallError, RegistryError
from dbinfer.base.version import __version__
from dbinfer.cli import main
from dbinfer.cli.app import app
from dbinfer.install import ensure, install, uninstall, upgrade
from dbinfer.install.content import Content
from dbinfer.install.doctor import doctor
from dbinfer.models import models
from dbinfer.score import jobs

UPGRADES = len(Content().upgrades)
Call = Callable[[str, str], tuple[Any, str]]

# The words that bring a command to the database; the others need none beside --dsn
WORDS = {
    "deploy": "{model} --name m",
    "activate": "m@1",
    "alias": "m@1 other",
    "default": "m",
    "drop": "m",
    "grant": "m public",
    "revoke": "m public",
    "predict": "{image}",
    "install": "--usage on",
    "plan": "--table images --images 5",
    "jobs cancel": "1",
    "store add": "s file:///srv",
    "store check": "s",
    "store drop": "s",
    "store grant": "s public",
    "store revoke": "s public",
    "tune": "digits --data digits --search lr=1e-4..1e-1",
}
# What takes a --dsn and goes without dbinfer there, or mends it
OTHERS = {
    "demo": "brings its database up to date",
    "upgrade": "mends it",
    "uninstall": "takes an older one out",
    "load": "takes any table",
    "sample": "takes any table",
    "export": "asks the user's query",
    "judge": "asks the user's query",
    "quantize": "asks the user's query",
    "train": "asks the user's query",
    "bench": "brings its database up to date, or asks as bench engine does",
    "bench engine": "as bench",
}


def with_dsn() -> Iterator[str]:
    """Yield the commands that take a --dsn."""
    waiting = [("", typer.main.get_command(app))]
    for name, command in waiting:
        if any("--dsn" in parameter.opts for parameter in command.params):
            yield name
        more = getattr(command, "commands", {})
        waiting += [(f"{name} {word}".strip(), found) for word, found in more.items()]


@pytest.fixture(scope="module")
def old(server_dsn: str, venv: Path) -> Iterator[str]:
    """A database as 0.1.0 made it."""
    with another_database(server_dsn, "test_versions_old") as dsn:
        release = Release("0.1.0")
        release.install(dsn, {"venv": str(venv)})
        release.deploy(dsn)
        change(dsn, "CREATE TABLE public.images (id integer PRIMARY KEY, img bytea)")
        yield dsn


def change(dsn: str, statement: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection, connection:
        rows(connection, statement)


@pytest.fixture
def said(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Call:
    """Call a command; return its exit code and what it says."""
    image = tmp_path / "image.png"
    image.write_bytes(tiny_models.file(tiny_models.picture(1, 2, 3)))
    places = {"model": tiny_models.constant(tmp_path, 1), "image": image}
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(name: str, dsn: str) -> tuple[Any, str]:
        words = WORDS.get(name, "").format(**places).split()
        with pytest.raises(SystemExit) as ended:
            main([*name.split(), *words, "--dsn", dsn])
        return ended.value.code, "".join(capsys.readouterr())

    return call


@pytest.mark.parametrize("name", sorted(set(with_dsn()) - set(OTHERS)))
def test_an_older_database_is_told_of(old: str, name: str, said: Call) -> None:
    if name == "tune" and not (find_spec("optuna") and find_spec("tensorflow")):
        pytest.skip("a search needs Optuna and TensorFlow: pip install dbinfer[tune,train]")
    before = snapshot(old)
    code, words = said(name, old)
    assert code == 1, words
    assert "older than this client" in words
    assert "dbinfer upgrade" in words
    assert "Traceback" not in words
    # doctor says before what is in order, on Greenplum in a line more
    assert sum(not line.startswith("ok ") for line in words.strip().splitlines()) < 5
    assert snapshot(old) == before


def test_an_older_database_is_left_alone_and_brought_up_to_date(server_dsn: str, venv: Path) -> None:
    with another_database(server_dsn, "test_versions_again") as dsn:
        Release("0.1.0").install(dsn, {"venv": "/nowhere"})
        before = snapshot(dsn)
        left = install(dsn=dsn)
        assert (left.changed, left.ok) == (False, True)
        assert "dbinfer 0.1.0, which is older than this client" in left.message
        assert "dbinfer upgrade" in left.message
        assert snapshot(dsn) == before
        assert ensure(dsn, str(venv)).changed
        assert rows_of(dsn, "SELECT release, upgrades FROM dbinfer.version") == [(__version__, UPGRADES)]
        assert rows_of(dsn, "SELECT value FROM dbinfer_private.setting WHERE name = 'venv'") == [(str(venv),)]
        assert models(dsn).models == ()


def rows_of(dsn: str, query: str) -> list[tuple[Any, ...]]:
    with closing(psycopg2.connect(dsn)) as connection, connection:
        return rows(connection, query)


@contextmanager
def changed(dsn: str, there: str, back: str) -> Iterator[None]:
    change(dsn, there)
    try:
        yield
    finally:
        change(dsn, back)


def release(number: str) -> str:
    return f"SELECT dbinfer_private.set_setting('version', '{number}')"


NEW_UPGRADE = "INSERT INTO dbinfer_private.upgrade VALUES ('9999_later', '', now())"
NO_NEW_UPGRADE = "DELETE FROM dbinfer_private.upgrade WHERE name = '9999_later'"
AWAY = "CREATE TABLE public.away AS SELECT * FROM dbinfer_private.upgrade WHERE name > '0009'"
NOT_AWAY = "INSERT INTO dbinfer_private.upgrade SELECT * FROM public.away; DROP TABLE public.away"
DELETE = "; DELETE FROM dbinfer_private.upgrade WHERE name > '0009'"
THIS = release(__version__)


@pytest.mark.parametrize(
    ("there", "back", "words"),
    [
        (release("99.0.0"), THIS, f"has dbinfer 99.0.0, which is newer than this client, {__version__}"),
        (NEW_UPGRADE, NO_NEW_UPGRADE, f"{UPGRADES + 1} upgrades, which is newer than .* with {UPGRADES}"),
        (release("0.1.9"), THIS, f"has dbinfer 0.1.9, which is older than this client, {__version__}"),
        (AWAY + DELETE, NOT_AWAY, f"8 upgrades, which is older than .* with {UPGRADES}"),
        ("DROP VIEW dbinfer.version", "upgrade", "a dbinfer from before 0.2.0, which is older than"),
    ],
)
def test_what_makes_a_database_older_or_newer(dsn: str, there: str, back: str, words: str) -> None:
    change(dsn, there)
    try:
        with pytest.raises(RegistryError, match=words) as caught:
            models(dsn)
        assert ("pip install" if "newer" in words else "dbinfer upgrade") in caught.value.hint
        with pytest.raises(DataError, match=words):
            jobs(dsn=dsn)
        assert [check.name for check in doctor(dsn).checks if not check.ok] == ["version"]
        if "newer" in words:
            for refused in (upgrade, uninstall):
                with pytest.raises(InstallError, match=words):
                    refused(dsn=dsn)
    finally:
        if back == "upgrade":
            # as for a database between two releases, which has all upgrades and not yet this view
            change(dsn, "UPDATE dbinfer_private.setting SET value = '' WHERE name = 'sql_digest'")
            assert upgrade(dsn=dsn).changed
        else:
            change(dsn, back)


def test_a_patch_release_goes_with_its_neighbours_but_is_not_set_back(dsn: str) -> None:
    patched = f"{__version__.rpartition('.')[0]}.99"
    change(dsn, release(patched))
    try:
        assert models(dsn).models == ()
        with pytest.raises(InstallError, match=f"has dbinfer {patched}, which is newer"):
            upgrade(dsn=dsn)
        (check,) = [check for check in doctor(dsn).checks if check.name == "version"]
        assert "pip install" in check.hint
    finally:
        change(dsn, THIS)


def test_every_role_may_ask_for_the_version(dsn: str) -> None:
    with closing(psycopg2.connect(dsn)) as connection, role(connection):
        assert ask(connection, "SELECT release FROM dbinfer.version") == __version__
