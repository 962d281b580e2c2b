"""A ticket remembers its last image, so that a result and its problem cost one pass through the network."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

from dbinfer_udf.errors import ImageError
from dbinfer_udf.session import ticket as ticket_module
from dbinfer_udf.session.ticket import KEPT_BYTES, Ticket

SPEC = json.dumps({"manifest": {"task": "classification"}, "settings": {}})
BAD = b"bad image"


class Scored:
    """A ticket over a model that notes what it scores."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, spec: str = SPEC) -> None:
        self.calls: list[tuple[str, bytes]] = []
        session = SimpleNamespace(
            transaction=lambda: 1, settles=False, orphan=SimpleNamespace(value=0), models={"": "model"}
        )
        self.ticket = Ticket(session, 3, spec, 0.0)
        self.ticket._tasks = {name: self._run(name) for name in ("classify", "classify_top", "predict")}
        monkeypatch.setattr(ticket_module, "raise_in_database", _raise)

    def _run(self, task: str) -> Any:
        def run(model: str, img: bytes, k: Any) -> str:
            self.calls.append((task, img))
            if img.startswith(BAD):
                raise ImageError("not an image")
            return f"{task} of {len(img)} bytes"

        return run

    def ask(self, task: str, img: bytes | None, on_error: str = "null", k: Any = 0) -> Any:
        # as PL/Python does, each call brings another object
        return self.ticket.run(None, task, img and bytes(bytearray(img)), on_error, k)


def _raise(plpy: Any, err: Exception, named: bool = True) -> None:
    raise err


@pytest.fixture
def scored(monkeypatch: pytest.MonkeyPatch) -> Scored:
    return Scored(monkeypatch)


def test_after_the_result(scored: Scored) -> None:
    for img, problem in ((b"good", None), (BAD, "not an image"), (b"other", None), (None, None)):
        scored.ask("classify", img)
        assert scored.ask("problem", img) == problem
    assert [img for _, img in scored.calls] == [b"good", BAD, b"other"]


def test_before_the_result(scored: Scored) -> None:
    for img, result, problem in (
        (b"good", "classify of 4 bytes", None),
        (BAD, None, "not an image"),
        (b"others", "classify of 6 bytes", None),
    ):
        assert scored.ask("problem", img) == problem
        assert scored.ask("classify", img) == result
    assert [img for _, img in scored.calls] == [b"good", BAD, b"others"]


def test_it_learns_with_what_the_statement_scores(scored: Scored) -> None:
    for img in (b"1", b"2", b"3"):
        assert scored.ask("problem", img) is None
        assert scored.ask("classify_top", img, k=5) == "classify_top of 1 bytes"
    assert [task for task, _ in scored.calls] == ["classify"] + 3 * ["classify_top"]


def test_another_argument_is_another_result(scored: Scored) -> None:
    assert scored.ask("problem", b"img") is None
    scored.ask("classify_top", b"img", k=5)
    scored.ask("problem", b"img2")
    scored.ask("classify_top", b"img2", k=2)
    assert [task for task, _ in scored.calls] == ["classify"] + 3 * ["classify_top"]


def test_an_error_is_raised_although_it_is_known(scored: Scored) -> None:
    assert scored.ask("problem", BAD) == "not an image"
    with pytest.raises(ImageError, match="not an image"):
        scored.ask("classify", BAD, "error")
    with pytest.raises(ImageError, match="not an image"):
        scored.ask("classify", BAD, "error")
    assert scored.ask("problem", BAD) == "not an image"


def test_large_images_are_kept_only_where_problems_are_asked_for(scored: Scored) -> None:
    for letter in (b"a", b"b"):
        large = letter * (KEPT_BYTES + 1)
        scored.ask("classify", large)
        scored.ask("problem", large)
    # the first row is scored twice, the second once
    assert [task for task, _ in scored.calls] == 3 * ["classify"]


def test_a_batch_has_no_image(scored: Scored) -> None:
    scored.ticket._tasks["batch"] = lambda model, img, k: "rows"
    scored.ask("batch", b"")
    scored.ask("problem", b"")
    assert scored.calls == [("classify", b"")]


def test_models_without_functions_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    scored = Scored(monkeypatch, json.dumps({"manifest": {"task": "tensor"}, "settings": {}}))
    assert scored.ask("problem", b"img") is None
    assert scored.ask("predict", b"img", k=None) == "predict of 3 bytes"
    assert scored.calls == [("predict", b"img")]
