"""The first rows of a fresh session with a fast model: in the engine, where one runs anyway."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from engine_fakes import FakeEngine, Plpy, make_session, run, spec, tried

from dbinfer_udf.engine import models
from dbinfer_udf.errors import CancelledError, EngineError, ImageError, ModelError
from dbinfer_udf.model import waiting
from dbinfer_udf.session.backend import Session

ENGINE, BACKEND = "classify in the engine", "classify in the backend"


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    values = (("infer", 0.05), ("error", None), ("opened", []), ("runs", True))
    for name, value in values:
        monkeypatch.setattr(FakeEngine, name, value)
    monkeypatch.setattr("dbinfer_udf.engine.models.Engine", FakeEngine)
    monkeypatch.setattr(models, "FIRST_ROWS", 3)
    return FakeEngine


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    """A fresh session: this process stands for a backend that has not imported NumPy."""
    found = make_session(monkeypatch, tmp_path)
    tried(tmp_path, 0.05)
    monkeypatch.delitem(sys.modules, "numpy")
    return found


def test_so_many_rows_are_the_engines_and_the_others_ours(session: Session) -> None:
    assert [run(session, spec()) for _ in range(5)] == [ENGINE] * 3 + [BACKEND] * 2
    # of all fast models together: the session has its libraries now
    assert run(session, spec(version=2)) == BACKEND
    assert len(FakeEngine.opened) == 1


def caller(session: Session) -> Callable[..., Any]:
    """Return what scores rows with one ticket, as a statement does: another image each time."""
    ticket, images = session._tickets[session.ticket(10, "m", 1, json.dumps(spec()), None)], count()
    return lambda task="classify", k=0: ticket.run(Plpy, task, b"img %d" % next(images), "error", k)


def test_two_tickets_of_one_model_follow_it_here(session: Session) -> None:
    """`m` and `m@1` have tickets of their own: one met, with the functions of the engine, a model of ours."""
    one, other = caller(session), caller(session)
    assert [one(), other(), one(), other(), one()] == [ENGINE] * 3 + [BACKEND] * 2


def test_a_ticket_whose_model_another_one_wanted_here(session: Session) -> None:
    one, other = caller(session), caller(session)
    assert [one(), other("profile"), one(), other("profile")] == [
        ENGINE,
        "profile in the backend",
        BACKEND,
        "profile in the backend",
    ]


@pytest.mark.parametrize("task", sorted(set(models.LOADED_HERE) - {"rest"}))
def test_a_ticket_that_had_first_rows_loads_what_a_whole_table_needs(session: Session, task: str) -> None:
    one = caller(session)
    assert one() == ENGINE
    assert one(task, k=("classify", "first rows", 1, b"", "error")) == f"{task} in the backend"
    assert one() == BACKEND


def test_so_do_rows_that_workers_have_left(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    one = caller(session)
    assert one() == ENGINE
    # where they have left none, there is nothing to load a model for
    assert one("rest", k=("classify", "first rows", "error")) == []
    monkeypatch.setattr(waiting, "files_of", lambda scan: ["a file"])
    monkeypatch.setattr(waiting, "read_kept", lambda path: (0, [(1, b"")]))
    assert one("rest", k=("classify", "first rows", "error")) == "rest in the backend"


def test_rows_that_wait_for_slow_models_are_few(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(models, "FIRST_ROWS", 1000)
    session.engine._first_rows = 1000
    seconds = count(0, models.FIRST_SECONDS / 2)
    monkeypatch.setattr(models, "monotonic", lambda: next(seconds))
    assert [run(session, spec()) for _ in range(4)] == [ENGINE] * 2 + [BACKEND] * 2


def test_the_last_of_the_first_rows_is_not_lost_with_the_engine(session: Session) -> None:
    assert [run(session, spec()) for _ in range(2)] == [ENGINE] * 2
    FakeEngine.opened[-1][1].error = EngineError("gone")
    assert run(session, spec()) == BACKEND


def test_what_the_engine_has_against_a_fast_model_counts_for_nothing(
    session: Session, engine: type[FakeEngine]
) -> None:
    engine.error = ModelError("no room in the engine")
    assert run(session, spec()) == BACKEND
    engine.error = CancelledError("cancelled")
    assert run(session, spec(version=2)) == BACKEND


def test_a_cancel_while_it_is_opened_ends_the_statement(session: Session, engine: type[FakeEngine]) -> None:
    engine.error = CancelledError("cancelled")
    with pytest.raises(Plpy.Error):
        run(session, spec())


def test_a_model_that_is_fast_here_and_not_there_leaves_it_too(
    session: Session, engine: type[FakeEngine], tmp_path: Path
) -> None:
    tried(tmp_path, 0.9)
    engine.infer = 1.1
    assert [run(session, spec()) for _ in range(4)] == [ENGINE] * 3 + [BACKEND]


def test_an_engine_that_does_not_run_is_not_started(session: Session, engine: type[FakeEngine]) -> None:
    engine.runs = False
    assert run(session, spec()) == BACKEND
    assert engine.opened == []
    # a slow model has it started all the same
    engine.infer = 5.0
    (Path(session.present({}).folder) / "trial.json").unlink()
    assert run(session, spec(version=2)) == ENGINE


def test_a_session_that_has_the_libraries_uses_them(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "numpy", sys)
    assert run(session, spec()) == BACKEND


@pytest.mark.parametrize("task", sorted(models.LOADED_HERE))
def test_whole_tables_and_who_warms_a_model_load_it_here(session: Session, task: str) -> None:
    assert run(session, spec(), task) == f"{task} in the backend"


def test_a_model_that_passed_is_loaded_for_a_whole_table(session: Session) -> None:
    assert run(session, spec()) == ENGINE
    row = ("classify", "passed", 1, b"", "error")
    assert run(session, spec(), "batch", row) == "batch in the backend"
    assert run(session, spec()) == BACKEND


def test_an_engine_that_goes_costs_no_row_and_slow_models_nothing(
    session: Session, engine: type[FakeEngine], tmp_path: Path
) -> None:
    assert run(session, spec()) == ENGINE
    FakeEngine.opened[-1][1].error = EngineError("gone")
    assert run(session, spec()) == BACKEND
    assert run(session, spec(version=2)) == BACKEND
    engine.infer = 5.0
    tried(tmp_path, engine.infer)
    assert run(session, spec(version=3)) == ENGINE


def test_a_model_that_only_the_engine_has_tried_passes_too(session: Session, tmp_path: Path) -> None:
    (tmp_path / "trial.json").unlink()
    assert [run(session, spec()) for _ in range(4)] == [ENGINE] * 3 + [BACKEND]
    assert not FakeEngine.opened[0][1].released


def test_never_and_always_are_as_they_were(session: Session) -> None:
    assert run(session, spec("never")) == BACKEND
    assert [run(session, spec("always")) for _ in range(9)] == [ENGINE] * 9


def test_a_bad_image_is_one_there_too(session: Session) -> None:
    run(session, spec())
    FakeEngine.opened[-1][1].error = ImageError("bad")
    assert run(session, spec(), on_error="null") is None
