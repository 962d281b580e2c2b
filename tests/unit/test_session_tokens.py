"""The backend's session with a plpy and a GD of the test's own, and a clock that the test moves."""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbinfer_udf.host import interrupts, process
from dbinfer_udf.session import resolve
from dbinfer_udf.session.backend import MAX_TICKETS, Session

SETTINGS = json.dumps({"venv": "", "threads": "1"})


class Plpy:
    """The part of plpy that the runtime uses."""

    class Error(Exception):
        """As plpy.Error."""


class Server:
    """What the runtime asks the server's memory for."""

    user, statement, transaction, subtransaction = 10, 100, 50, 1


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Server:
    server = Server()
    monkeypatch.setattr(process, "user_function", lambda: lambda: server.user)
    monkeypatch.setattr(process, "content_id", lambda: None)
    monkeypatch.setattr(resolve, "transaction_function", lambda gd: lambda: server.transaction)
    monkeypatch.setattr(resolve, "statement_function", lambda: lambda: server.statement)
    monkeypatch.setattr(resolve, "subtransaction_function", lambda: lambda: server.subtransaction)
    monkeypatch.setattr(interrupts, "interrupt_flag", lambda: ctypes.c_bool(False))
    return server


@pytest.fixture
def gd() -> dict[str, Any]:
    return {}


@pytest.fixture
def session(server: Server, gd: dict[str, Any]) -> Session:
    gd["dbinfer"] = Session(gd, "digest")
    return gd["dbinfer"]


def test_a_hit_needs_model_user_statement_and_transaction(session: Session, server: Server) -> None:
    token = session.ticket(10, "digits", 3, SETTINGS, None)
    assert token.startswith("dbinfer:3:")
    assert session.gate("digits") == token
    assert session.gate("other") is None
    assert session.gate(None) is None
    server.user = 11
    assert session.gate("digits") is None
    server.user = 10
    assert session.gate("digits") == token
    server.statement += 1
    assert session.gate("digits") is None


def test_tokens_cannot_be_guessed(session: Session) -> None:
    tokens = {session.ticket(10, "digits", 3, SETTINGS, None) for _ in range(20)}
    assert len(tokens) == 20
    assert len({token.split(":")[2] for token in tokens}) == 20


def test_tickets_of_old_transactions_are_forgotten(
    session: Session, server: Server, gd: dict[str, Any]
) -> None:
    first = session.ticket(10, "digits", 3, SETTINGS, None)
    server.transaction += 1
    second = session.ticket(10, "digits", 3, SETTINGS, None)
    assert first not in gd["dbinfer.tickets"]
    assert second in gd["dbinfer.tickets"]


def test_one_transaction_keeps_a_bounded_number_of_tickets(session: Session, gd: dict[str, Any]) -> None:
    for number in range(3 * MAX_TICKETS):
        session.ticket(10, f"model{number}", number, SETTINGS, None)
    assert len(gd["dbinfer.tickets"]) <= MAX_TICKETS


def test_a_given_token_is_kept(session: Session, gd: dict[str, Any]) -> None:
    """Greenplum's segments get the token of the coordinator."""
    assert session.ticket(10, None, 3, SETTINGS, "dbinfer:3:0123456789abcdef") == "dbinfer:3:0123456789abcdef"
    assert session.gate(None) is None
    assert session.here("dbinfer:3:0123456789abcdef") == "dbinfer:3:0123456789abcdef"
    assert session.here("dbinfer:3:ffffffffffffffff") is None


def test_what_nobody_expected_says_where_it_happened(session: Session, gd: dict[str, Any]) -> None:
    for settings, named in (({}, False), ({"hosts": "true"}, True)):
        token = session.ticket(10, "digits", 3, json.dumps({"settings": settings}), None)
        with pytest.raises(Plpy.Error, match="unexpected KeyError") as caught:
            gd["dbinfer.tickets"][token].run(Plpy, "predict", b"image", "error", 0)
        detail = caught.value.detail  # type: ignore[attr-defined]
        assert f"pid {os.getpid()}" in detail
        assert ("Traceback" in detail, "host " in detail) == (named, named)
    assert caught.value.sqlstate == "XX000"  # type: ignore[attr-defined]


def test_close_leaves_nothing(session: Session, gd: dict[str, Any]) -> None:
    session.ticket(10, "digits", 3, SETTINGS, None)
    session.close()
    assert gd["dbinfer.tickets"] == {}


def test_resolving_needs_no_library() -> None:

    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import dbinfer_udf.session.backend, dbinfer_udf.bootstrap; "
        "print([m for m in ('numpy', 'cv2', 'openvino', 'orjson') if m in sys.modules])"
    )
    udf = Path(__file__).parents[2] / "udf"
    done = subprocess.run([sys.executable, "-c", code, udf], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


class Loaded:
    """Stands for a model."""

    seconds = 0.0

    def waited_for(self, seconds: float) -> None:
        self.seconds = seconds


def test_a_user_waits_from_the_question_on(
    session: Session, gd: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Runtime, files and imports before the model is compiled count too."""
    model = Loaded()
    tasks = {"warm": lambda *args: "done"}
    monkeypatch.setattr(
        "dbinfer_udf.engine.models.load_model", lambda session, spec, task: (tasks, "key", model)
    )
    monkeypatch.setattr("dbinfer_udf.session.ticket.perf_counter", lambda: 5.0)
    gd["dbinfer.asked"] = 2.0
    token = session.ticket(10, "digits", 3, json.dumps({"settings": {}}), None)
    assert gd["dbinfer.tickets"][token].run(Plpy, "warm", b"", "error", 0) == "done"
    assert model.seconds == 3.0
    assert "dbinfer.asked" not in gd
    model.seconds = 0.0
    gd["dbinfer.tickets"][token].run(Plpy, "warm", b"", "error", 0)
    assert model.seconds == 0.0
