"""What a backend says of itself, and the flag that the postmaster may have ended, on a server of the test's own."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from dbinfer_udf.host import interrupts, process


def cluster(role: bytes, number: int) -> SimpleNamespace:
    """Return the symbols of a Greenplum process; `number` is its Gp_role."""

    def show_gp_role() -> bytes:
        return role

    return SimpleNamespace(Gp_role=number, show_gp_role=show_gp_role)


@pytest.mark.parametrize(
    ("role", "number", "dispatches"),
    [
        (b"dispatch", 2, True),  # Greenplum 7, Cloudberry
        (b"execute", 3, False),
        (b"dispatch", 1, True),  # Greenplum 6, which begins to count at utility
        (b"execute", 2, False),
        (b"utility", 1, False),  # Cloudberry's single node
    ],
)
def test_the_role_goes_by_its_name(
    monkeypatch: pytest.MonkeyPatch, role: bytes, number: int, dispatches: bool
) -> None:
    """Its number was taken for Greenplum 7's, so that a segment of Greenplum 6 was the dispatcher."""
    monkeypatch.setattr(process, "server", lambda: cluster(role, number))
    assert process.dispatches() is dispatches


def test_postgresql_has_no_dispatcher(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "server", SimpleNamespace)
    assert process.dispatches() is False


@pytest.mark.parametrize(
    ("settings", "content"),
    [
        ({"gp_contentid": "2"}, 2),  # a segment of Greenplum, which has no such setting
        ({"gp_contentid": "-1", "gp_internal_is_singlenode": "off"}, -1),
        ({"gp_contentid": "-1", "gp_internal_is_singlenode": "on"}, None),
    ],
)
def test_a_single_node_is_no_cluster(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, str], content: int | None
) -> None:
    """It shares one number of session among all sessions, and has one backend for all segments."""
    monkeypatch.setattr(process, "server", lambda: cluster(b"utility", 1))
    monkeypatch.setattr(process, "setting", settings.get)
    assert process.content_id() == content
    assert process.on_cluster() is (content is not None)


@pytest.fixture
def flag(monkeypatch: pytest.MonkeyPatch) -> ctypes.c_int:
    found = ctypes.c_int(1)  # a backend begins so
    monkeypatch.setattr(interrupts, "orphan_flag", lambda: found)
    return found


def test_a_flag_that_was_looked_at_is_reset(monkeypatch: pytest.MonkeyPatch, flag: ctypes.c_int) -> None:
    """Before, it stayed set, and each row looked again, which cost as much as a small network."""
    monkeypatch.setattr(interrupts, "postmaster", os.getppid)
    assert not interrupts.orphaned()
    assert flag.value == 0


def test_an_orphan_stays_one(monkeypatch: pytest.MonkeyPatch, flag: ctypes.c_int) -> None:
    monkeypatch.setattr(interrupts, "postmaster", lambda: os.getppid() + 1)
    assert interrupts.orphaned()
    assert interrupts.orphaned()
    assert flag.value == 1


def test_without_the_signal_nobody_looks(monkeypatch: pytest.MonkeyPatch, flag: ctypes.c_int) -> None:
    flag.value = 0
    monkeypatch.setattr(interrupts, "postmaster", lambda: 1 / 0)
    assert not interrupts.orphaned()


def test_the_servers_symbols_are_opened_once() -> None:
    """Rows ask for them several times, and each opening makes a class."""
    assert process.server() is process.server()


@pytest.mark.parametrize(
    ("destination", "name"), [("stderr", "ours.log"), ("csvlog, jsonlog", "ours.json"), (None, "ours.log")]
)
def test_our_log_lies_beside_the_servers_and_is_of_its_kind(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, destination: str | None, name: str
) -> None:
    settings = {"logging_collector": "on", "log_directory": str(tmp_path), "log_destination": destination}
    monkeypatch.setattr(process, "server", lambda: SimpleNamespace(GetConfigOption=None))
    monkeypatch.setattr(process, "setting", settings.get)
    assert process.server_log("ours") == str(tmp_path / name)
    settings["logging_collector"] = "off"
    assert process.server_log("ours") == ""
