"""Where a session scores: in the host's engine or in its own process; the engine here is the test's own."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from engine_fakes import FakeEngine, Plpy, make_session, run, spec, tried

from dbinfer_udf.engine import models
from dbinfer_udf.engine.models import HostEngine, wanted_isolation
from dbinfer_udf.errors import CancelledError, EngineError, ImageError
from dbinfer_udf.model.functions import RUNS
from dbinfer_udf.session.backend import Session

UDF = Path(__file__).parents[2] / "udf"


@pytest.fixture(autouse=True)
def engine(monkeypatch: pytest.MonkeyPatch) -> type[FakeEngine]:
    for name, value in (("infer", 5.0), ("error", None), ("opened", [])):
        monkeypatch.setattr(FakeEngine, name, value)
    monkeypatch.setattr("dbinfer_udf.engine.models.Engine", FakeEngine)
    return FakeEngine


@pytest.fixture
def session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Session:
    return make_session(monkeypatch, tmp_path)


def test_the_databases_always_holds_for_every_model(subtests: pytest.Subtests) -> None:
    for model, database, expected in [
        (None, None, "auto"),
        (None, "never", "never"),
        ("always", "never", "always"),
        ("never", None, "never"),
        ("never", "always", "always"),
        (None, "always", "always"),
    ]:
        with subtests.test(model=model, database=database, expected=expected):
            assert wanted_isolation(spec(model, database)) == expected


@pytest.mark.parametrize(
    ("isolation", "milliseconds", "place"),
    [
        ("auto", 0.99, "backend"),
        ("auto", 1.0, "engine"),
        ("auto", None, "engine"),
        ("never", 100.0, "backend"),
        ("always", 0.01, "engine"),
    ],
)
def test_the_time_of_an_inference_decides(
    session: Session, tmp_path: Path, isolation: str, milliseconds: float | None, place: str
) -> None:
    if milliseconds is not None:
        tried(tmp_path, milliseconds)
    assert run(session, spec(isolation)) == f"classify in the {place}"
    assert run(session, spec(isolation)) == f"classify in the {place}"  # the second row opens nothing
    assert len(FakeEngine.opened) == (place == "engine")


def test_a_fast_model_that_the_engine_has_tried_runs_here(session: Session, engine: type[FakeEngine]) -> None:
    engine.infer = 0.05
    assert run(session, spec("auto")) == "classify in the backend"
    assert [model.released for _rows, model in engine.opened] == [True]


def test_without_an_engine_auto_works_here_and_asks_seldom(
    session: Session, engine: type[FakeEngine], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine.error = EngineError("the engine cannot be started")
    assert run(session, spec("auto")) == "classify in the backend"
    engine.error = None
    assert run(session, spec("auto", version=2)) == "classify in the backend"
    monkeypatch.setattr("dbinfer_udf.engine.models.RETRY_SECONDS", 0.0)
    assert run(session, spec("auto", version=3)) == "classify in the engine"


def test_without_an_engine_always_is_an_error(session: Session, engine: type[FakeEngine]) -> None:
    engine.error = EngineError("the engine cannot be started", hint="Make room.")
    with pytest.raises(Plpy.Error, match="the engine cannot be started") as caught:
        run(session, spec("always"), on_error="null")
    assert (caught.value.sqlstate, caught.value.hint) == ("58000", "Make room.")


def test_an_engine_that_goes_between_two_rows_costs_auto_no_row(session: Session) -> None:
    assert run(session, spec("auto")) == "classify in the engine"
    FakeEngine.opened[-1][1].error = EngineError("gone")
    assert run(session, spec("auto")) == "classify in the backend"
    assert run(session, spec("auto")) == "classify in the backend"
    assert run(session, spec("always")) == "classify in the engine"
    FakeEngine.opened[-1][1].error = EngineError("gone")
    with pytest.raises(Plpy.Error, match="gone"):
        run(session, spec("always"))


def test_a_row_that_ends_its_worker_is_like_a_bad_image(session: Session) -> None:
    with pytest.raises(Plpy.Error, match="the worker was killed"):
        run(session, spec(), img=b"?")
    assert run(session, spec(), img=b"?", on_error="null") is None
    assert run(session, spec(), on_error="null") == "classify in the engine"


@pytest.mark.parametrize("error", [CancelledError("it waited"), ImageError("bad")])
def test_a_cancel_is_an_error_whatever_on_error_says(session: Session, error: Exception) -> None:
    run(session, spec())
    FakeEngine.opened[-1][1].error = error
    if isinstance(error, ImageError):
        assert run(session, spec(), on_error="null") is None
        return
    with pytest.raises(Plpy.Error) as caught:
        run(session, spec(), on_error="null")
    assert type(caught.value).__name__ == "canceling statement due to user request"
    assert caught.value.sqlstate == "57014"


def test_who_asks_decides_whether_the_host_is_told(session: Session) -> None:
    named = spec("always")
    named["settings"]["hosts"] = "true"
    assert "host" in json.loads(run(session, named, "warm"))
    # the same model of the engine, opened for an administrator
    assert "host" not in json.loads(run(session, spec("always"), "warm"))
    assert len(FakeEngine.opened) == 1


def test_a_batch_that_the_engine_lost_is_scored_here(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before, the statement failed: the backend knew the last row only."""
    own = SimpleNamespace(
        in_process=True,
        waited_for=lambda seconds: None,
        rows=lambda function, null, wanted: [f"{function} {number} here" for number, _ in wanted],
    )
    monkeypatch.setattr(models, "_load_here", lambda *given: own)
    monkeypatch.setattr(models, "_runs_here", lambda settings: RUNS)
    found = [spec("auto"), *[("classify", "s", number, b"x", "error") for number in range(64)]]
    answers = [run(session, found[0], "batch", row) for row in found[1:33]]
    assert answers[:31] == [None] * 31
    assert answers[31] == (list(range(32)), [f"row {number}" for number in range(32)], None, 32)
    for row in found[33:64]:
        assert run(session, found[0], "batch", row) is None
    for _, model in FakeEngine.opened:
        model.error = EngineError("gone")
    numbers, texts, _, handed = run(session, found[0], "batch", found[64])
    assert (numbers, handed) == (list(range(32, 64)), 64)
    assert texts == [f"classify {number} here" for number in numbers]


def test_batches_are_for_models_of_their_task(session: Session) -> None:
    embedding = spec("always", manifest={"task": "embedding"})
    with pytest.raises(Plpy.Error, match=r"is for embedding, but segment_table\(\) needs segmentation"):
        run(session, embedding, "batch", ("segment", "t", 1, b"x", "error"))
    with pytest.raises(Plpy.Error, match=r"there is no function fly\(\) that scores in batches"):
        run(session, embedding, "batch", ("fly", "t", 1, b"x", "error"))


def test_the_engine_has_all_functions_of_a_model() -> None:
    assert set(models.REMOTE_RUNS) == set(RUNS) - {"rows"}


def test_models_of_the_engine_do_not_count_as_loaded_here(session: Session) -> None:
    for version in range(100):
        run(session, spec("always", version=version))
    assert len(session.models) == models.MOST_REMOTE


def test_scoring_through_the_engine_needs_no_library() -> None:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1]); import dbinfer_udf.session.backend, dbinfer_udf.engine.models; "
        "print([m for m in ('numpy', 'cv2', 'openvino', 'orjson', 'subprocess', 'dataclasses') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code, str(UDF)], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_a_session_loses_only_models_of_the_engine(session: Session) -> None:
    run(session, spec("never"))
    assert not session.lose_engine(next(iter(session.models)))
    assert not session.lose_engine("")
    engine = HostEngine("digest", dict)
    assert engine.lose(spec("auto"))
    assert not engine.lose(spec("always"))
