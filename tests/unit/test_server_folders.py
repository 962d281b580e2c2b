"""Where the state folder lies and what it refuses."""

from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from dbinfer.base.errors import ServerError
from dbinfer.database.state import Home, locate
from dbinfer.server import account
from dbinfer.server.account import Account


@pytest.fixture
def myself() -> Account:
    return Account("me", os.geteuid(), os.getegid(), "/", switch=False)


def test_the_argument_goes_before_the_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DBINFER_HOME", str(tmp_path / "variable"))
    assert locate(tmp_path / "argument").path == tmp_path / "argument"
    assert locate().path == tmp_path / "variable"


def test_root_does_not_use_its_own_data_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DBINFER_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert locate().path == Path("/var/lib/dbinfer")


def test_a_user_gets_the_data_folder_of_the_desktop_standard(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("DBINFER_HOME", raising=False)
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert locate().path == tmp_path / "dbinfer"


def test_the_socket_lies_in_the_state_folder(tmp_path: Path, myself: Account) -> None:
    place = Home(Path("/srv/dbinfer"))
    assert account.socket_dir(place, myself) == place.run


def test_a_long_path_gets_a_short_socket_folder(tmp_path: Path, myself: Account) -> None:
    place = Home(tmp_path / ("long" * 30))
    short = account.socket_dir(place, myself)
    try:
        assert len(str(short)) + account.LONGEST_SOCKET_NAME <= account.SOCKET_PATH_LIMIT
        assert short == account.socket_dir(place, myself), "the same folder each time"
        assert short.stat().st_mode & 0o777 == 0o700
    finally:
        short.rmdir()


def test_prepare_makes_a_private_folder(tmp_path: Path, myself: Account) -> None:
    place = Home(tmp_path / "state")
    account.prepare(place, myself)
    assert place.path.stat().st_mode & 0o777 == 0o700
    assert place.run.is_dir()
    assert place.log.parent.is_dir()


def test_a_folder_of_another_user_is_refused(
    tmp_path: Path, myself: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 54321)
    with pytest.raises(ServerError, match="belongs to another user"):
        account.prepare(Home(tmp_path), myself)


def test_a_file_in_the_way_is_named(tmp_path: Path, myself: Account) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(ServerError, match=r"cannot create the state folder .*file/state"):
        account.prepare(Home(tmp_path / "file" / "state"), myself)


def test_the_second_holder_of_the_lock_says_so_and_waits(tmp_path: Path) -> None:
    place, said, order = Home(tmp_path), list[str](), list[str]()
    waiting = threading.Event()

    def hear(text: str) -> None:
        said.append(text)
        waiting.set()

    def second() -> None:
        with account.locked(place, hear):
            order.append("second")

    thread = threading.Thread(target=second)
    with account.locked(place, said.append):
        thread.start()
        assert waiting.wait(60)
        order.append("first")
    thread.join(60)
    assert order == ["first", "second"]
    assert len(said) == 1
    assert "waiting" in said[0]


def test_the_lock_is_nobody_elses_to_hold(tmp_path: Path) -> None:
    """flock asks for no right to write: who could read the lock of root's folder could hold `up` for ever."""
    (tmp_path / "lock").touch(0o644)
    with account.locked(Home(tmp_path), print):
        assert (tmp_path / "lock").stat().st_mode & 0o777 == 0o600
