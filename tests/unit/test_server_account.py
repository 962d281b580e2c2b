"""The user under whom the server runs, and what it can reach."""

from __future__ import annotations

import os
import pwd
from pathlib import Path

import pytest
from common_folders import common_folder

from dbinfer.base.errors import ServerError
from dbinfer.server.account import Account, server_account


@pytest.fixture
def other() -> Account:
    """An account that cannot enter private folders: nobody when we are root, else ourselves."""
    if os.geteuid() == 0:
        entry = pwd.getpwnam("nobody")
        return Account(entry.pw_name, entry.pw_uid, entry.pw_gid, "/", switch=True)
    return Account(pwd.getpwuid(os.geteuid()).pw_name, os.geteuid(), os.getegid(), "/", switch=False)


def test_a_command_runs_as_the_account_in_a_clean_environment(
    other: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGDATA", "/nowhere")
    done = other.run(["/bin/sh", "-c", 'id -u; pwd; echo "[$PGDATA]"'])
    assert done.stdout.split() == [str(other.uid), "/", "[]"]


def test_a_limit_to_some_instructions_reaches_the_server(
    other: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ONEDNN_MAX_CPU_ISA", "SSE41")
    assert other.run(["/bin/sh", "-c", "echo $ONEDNN_MAX_CPU_ISA"]).stdout == "SSE41\n"


def test_a_closed_folder_is_named(other: Account) -> None:
    with common_folder("closed") as folder:
        closed = folder / "closed folder"
        inner = closed / "inner"
        inner.mkdir(parents=True)
        closed.chmod(0)
        try:
            with pytest.raises(ServerError, match=f"cannot enter the folder {closed}") as caught:
                other.check_reach(inner)
            assert f"chmod o+x '{closed}'" in caught.value.hint
        finally:
            closed.chmod(0o755)
        other.check_reach(inner)


def test_a_link_in_place_of_a_folder_is_refused(tmp_path: Path, other: Account) -> None:
    (tmp_path / "link").symlink_to(tmp_path)
    with pytest.raises(ServerError, match="is not a folder"):
        other.own_folder(tmp_path / "link", 0o700)


def test_a_folder_of_somebody_else_is_refused(tmp_path: Path) -> None:
    stranger = Account("stranger", 54321, 54321, "/", switch=False)
    with pytest.raises(ServerError, match="but the server runs as stranger"):
        stranger.own_folder(tmp_path, 0o700)


def test_root_without_a_postgres_user_gets_the_cure(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> pwd.struct_passwd:
        raise KeyError(name)

    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(pwd, "getpwnam", missing)
    with pytest.raises(ServerError, match="no user named postgres") as caught:
        server_account()
    assert "apt-get install postgresql" in caught.value.hint
