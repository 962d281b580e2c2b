"""Stand-ins for the engine and for a session's own models, so that a test sees where a row was scored."""

from __future__ import annotations

import ctypes
import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest

from dbinfer_udf.engine import models
from dbinfer_udf.errors import EngineError, RowError
from dbinfer_udf.host import cache, interrupts, process, protocol
from dbinfer_udf.model.functions import RUNS
from dbinfer_udf.session import resolve
from dbinfer_udf.session.backend import Session


class Plpy:
    """The part of plpy that the runtime uses."""

    class Error(Exception):
        """As plpy.Error."""


class FakeModel:
    """Stands for a model in the engine: answers with what it was asked, and fails as it is told."""

    def __init__(self, rows: int, infer: float | None) -> None:
        self.facts = {
            "rows": rows,
            "threads": 1,
            "infer_milliseconds": infer,
            "batch_milliseconds": 0.1,
            "result_bytes": 100,
        }
        self.error: Exception | None = None
        self.deadly = b"?"
        self.released = False
        self.passing = False

    def ask(self, task: str, img: bytes, k: Any, meanwhile: Callable[[], None] | None = None) -> Any:
        if self.error is not None:
            raise self.error
        if self.deadly in img:
            raise RowError("the worker was killed")
        if task == "rows":
            return protocol.pack_results([f"row {number}" for number, _ in k[2]])
        return {"warm": "{}"}.get(task, f"{task} in the engine")

    def wide(self, rows: int) -> FakeModel:
        FakeEngine.opened.append((rows, FakeModel(rows, 5.0)))
        return FakeEngine.opened[-1][1]

    def waited_for(self, seconds: float) -> None:
        pass

    def release(self) -> None:
        self.released = True


class FakeEngine:
    """Stands for engine.client.Engine."""

    infer: float | None = 5.0
    error: Exception | None = None
    runs = True
    opened: ClassVar[list[tuple[int, FakeModel]]] = []

    def __init__(
        self, settings: dict[str, str], digest: str, modules: dict[str, str], starts: bool = True
    ) -> None:
        self.error = self.error or (
            None if starts or self.runs else EngineError("no engine runs on this host")
        )

    def open(self, spec: dict[str, Any], folder: str, threads: int, rows: int = 1) -> FakeModel:
        if self.error is not None:
            raise self.error
        FakeEngine.opened.append((rows, FakeModel(rows, self.infer)))
        return FakeEngine.opened[-1][1]


def make_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    """A session whose own models answer `... in the backend`."""
    monkeypatch.setattr(process, "user_function", lambda: lambda: 10)
    monkeypatch.setattr(process, "content_id", lambda: None)
    monkeypatch.setattr(resolve, "transaction_function", lambda gd: lambda: 1)
    monkeypatch.setattr(resolve, "statement_function", lambda: lambda: 1)
    monkeypatch.setattr(resolve, "subtransaction_function", lambda: lambda: 1)
    monkeypatch.setattr(interrupts, "interrupt_flag", lambda: ctypes.c_bool(False))
    own = SimpleNamespace(in_process=True, waited_for=lambda seconds: None)
    monkeypatch.setattr(models, "_load_here", lambda session, spec, threads: own)
    tasks = {name: lambda model, img, k, name=name: f"{name} in the backend" for name in RUNS}
    monkeypatch.setattr(models, "_runs_here", lambda settings: tasks)
    gd: dict[str, Any] = {}
    gd["dbinfer"] = Session(gd, "digest")
    monkeypatch.setattr(Session, "present", lambda self, spec: SimpleNamespace(folder=str(tmp_path)))
    return gd["dbinfer"]


def spec(isolation: str | None = None, database: str | None = None, **values: Any) -> dict[str, Any]:
    settings = {"threads": "1"} | ({"isolation": database} if database else {})
    manifest = {"task": "classification"}
    found = {"model": "m", "version": 1, "xml_digest": "x", "bin_digest": "b", "manifest": manifest}
    return found | {"isolation": isolation, "settings": settings} | values


def run(session: Session, found: dict[str, Any], task: str = "classify", k: Any = 0, **more: Any) -> Any:
    token = session.ticket(10, "m", 1, json.dumps(found), None)
    ticket = session._tickets[token]
    return ticket.run(Plpy, task, more.get("img", b"img"), more.get("on_error", "error"), k)


def tried(folder: Path, milliseconds: float) -> None:
    unknown = dict.fromkeys(cache.TRIAL_KEYS, "") | dict.fromkeys(cache.TRIAL_NUMBERS)
    outcome = unknown | {"milliseconds": milliseconds}
    Path(cache.trial_path(str(folder))).write_text(json.dumps(outcome))
