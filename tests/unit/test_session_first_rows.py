"""The first rows of a fresh session with a fast model: in the engine, where one runs anyway."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from engine_fakes import FakeEngine, make_session, run, spec, tried

from dbinfer_udf import isolation
from dbinfer_udf.engine.errors import EngineError
from dbinfer_udf.errors import ImageError
from dbinfer_udf.session import Session

ENGINE, BACKEND = "classify in the engine", "classify in the backend"


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    values = (("infer", 0.05), ("error", None), ("opened", []), ("runs", True))
    for name, value in values:
        monkeypatch.setattr(FakeEngine, name, value)
    monkeypatch.setattr("dbinfer_udf.isolation.Engine", FakeEngine)
    monkeypatch.setattr(isolation, "FIRST_ROWS", 3)
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


@pytest.mark.parametrize("task", sorted(isolation.LOADED_HERE))
def test_whole_tables_and_who_warms_a_model_load_it_here(session: Session, task: str) -> None:
    assert run(session, spec(), task) == f"{task} in the backend"


def test_a_model_that_passed_is_loaded_for_a_whole_table(session: Session) -> None:
    assert run(session, spec()) == ENGINE
    assert run(session, spec(), "batch") == "batch in the backend"
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
