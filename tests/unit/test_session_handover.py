"""What Greenplum's dispatcher leaves for the coordinator's reader: who gets it, how long, and what is removed."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest

from dbinfer_udf.host import process
from dbinfer_udf.session import handover, resolve
from dbinfer_udf.session.handover import Handover, take_ticket

TOKEN = "dbinfer:3:0123456789abcdef"
TICKET = {"caller": 10, "model": "digits", "version_id": 3, "spec": "{}"}


class Server:
    """What the runtime asks the server's memory for."""

    session, transaction, statement = 7, 50, 100


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Server:
    server = Server()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(process, "session_number", lambda: server.session)
    clocks = lambda: {"transaction": server.transaction, "statement": server.statement}  # noqa: E731
    monkeypatch.setattr(resolve, "clocks", clocks)
    monkeypatch.setattr(resolve, "is_in", lambda pid, moments: set(moments) <= set(clocks().values()))
    return server


@pytest.fixture
def desk(server: Server) -> Handover:
    return Handover(lambda: {"session": "pass"}, "digest")


def folder(session: int = 7) -> Path:
    return Path.cwd() / "dbinfer_entry" / str(session)


def test_a_ticket_is_found_by_token_and_by_model(desk: Handover) -> None:
    desk.leave(TOKEN, TICKET)
    assert TICKET.items() <= (take_ticket(TOKEN, 10, None) or {}).items()
    assert TICKET.items() <= (take_ticket(None, 10, "digits") or {}).items()
    assert take_ticket(None, 10, "other") is None
    assert take_ticket(None, 10, None) is None


def test_it_is_its_users_sessions_and_transactions(desk: Handover, server: Server) -> None:
    desk.leave(TOKEN, TICKET)
    assert take_ticket(TOKEN, 11, None) is None
    assert take_ticket(None, 11, "digits") is None
    server.session = 8
    assert take_ticket(TOKEN, 10, None) is None
    server.session, server.transaction = 7, 51
    assert take_ticket(TOKEN, 10, None) is None


def test_a_name_counts_in_its_statement(desk: Handover, server: Server) -> None:
    desk.leave(TOKEN, TICKET)
    server.statement = 101
    assert take_ticket(None, 10, "digits") is None
    assert take_ticket(TOKEN, 10, None) is not None


def test_after_a_change_of_the_registry_no_name_counts(desk: Handover) -> None:
    desk.leave(TOKEN, TICKET)
    desk.forget_names()
    desk.leave("dbinfer:4:1123456789abcdef", dict(TICKET, version_id=4))
    assert take_ticket(None, 10, "digits") is None
    assert take_ticket(TOKEN, 10, None) is not None
    desk.clear()
    desk.leave("dbinfer:4:2123456789abcdef", TICKET)
    assert take_ticket(None, 10, "digits") is not None


def test_the_next_transaction_removes_what_was_left(desk: Handover) -> None:
    desk.leave(TOKEN, TICKET)
    assert len(list(folder().iterdir())) == 5
    desk.clear()
    assert {path.name for path in folder().iterdir()} == {"owner", "digest", "runtime"}


def test_nobody_else_can_read_it(desk: Handover) -> None:
    desk.leave(TOKEN, TICKET)
    assert oct(folder().parent.stat().st_mode)[-3:] == oct(folder().stat().st_mode)[-3:] == "700"
    assert {oct(path.stat().st_mode)[-3:] for path in folder().iterdir()} == {"600"}


def test_a_file_of_another_user_is_not_believed(desk: Handover, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.leave(TOKEN, TICKET)
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    assert take_ticket(TOKEN, 10, None) is None


@pytest.mark.parametrize("content", ["", "{", "no json"])
def test_half_a_ticket_is_none(desk: Handover, content: str) -> None:
    desk.leave(TOKEN, TICKET)
    (folder() / TOKEN[-16:]).write_text(content)
    assert take_ticket(TOKEN, 10, None) is None


def test_a_token_names_no_other_file(desk: Handover) -> None:
    desk.leave(TOKEN, TICKET)
    (folder().parent / "elsewhere").write_text((folder() / TOKEN[-16:]).read_text())
    assert take_ticket("dbinfer:3:../elsewhere", 10, None) is None


def test_a_full_disk_stops_no_statement(server: Server) -> None:
    Path("dbinfer_entry").write_text("a file where the folder should be")
    Handover(lambda: {"session": "pass"}, "digest").leave(TOKEN, TICKET)
    assert take_ticket(TOKEN, 10, None) is None


def test_the_runtime_is_there_once_and_complete(desk: Handover, server: Server) -> None:
    desk.leave(TOKEN, TICKET)
    server.session = 8
    Handover(lambda: {"session": "pass"}, "digest").leave(TOKEN, TICKET)
    assert json.loads((folder(8) / "runtime").read_text()) == {"session": "pass"}
    assert (folder(7) / "runtime").samefile(folder(8) / "runtime")
    assert (folder(8) / "digest").read_text() == "digest"


def test_what_dead_sessions_left_is_swept(
    desk: Handover, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    desk.leave(TOKEN, TICKET)
    (folder(7) / "owner").write_text(f"{os.getpid()} 1")  # a process of that number, born at another time
    server.session = 8
    Handover(lambda: {"session": "pass"}, "new").leave(TOKEN, TICKET)
    assert not folder(7).exists()
    assert (folder().parent / "runtime-digest").exists()  # it may be in the making
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now + handover.AGE + 1)
    server.session = 9
    Handover(lambda: {"session": "pass"}, "new").leave(TOKEN, TICKET)
    assert {path.name for path in folder().parent.iterdir()} == {"8", "9", "runtime-new"}
