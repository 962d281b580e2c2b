"""A row of a batch that ends its worker, where bad images are to give NULL."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer_udf.engine.models import score_rows
from dbinfer_udf.errors import RowError
from dbinfer_udf.host import protocol


class Deadly:
    """Stands for the engine's model for a batch, whose worker some images end."""

    def __init__(self, most: int) -> None:
        self.facts = {"rows": most, "threads": 1}
        self.asked: list[int] = []

    def ask(self, task: str, img: bytes, k: Any) -> bytes:
        assert task == "rows"
        self.asked.append(len(k[2]))
        if any(file == b"?" for _, file in k[2]):
            raise RowError("the worker was killed")
        return protocol.pack_results([None if file is None else f"{number}" for number, file in k[2]])


def test_a_batch_loses_only_the_rows_that_end_their_worker() -> None:
    model, wanted = Deadly(5), [(0, b"a"), (1, b"?"), (2, None), (3, b"?"), (4, b"b")]
    assert score_rows(model, "classify", True, wanted) == ["0", None, None, None, "4"]
    with pytest.raises(RowError, match=r"^row 1: the worker was killed$"):
        score_rows(model, "classify", False, wanted)


class Killed(Deadly):
    """A model whose worker somebody kills within its first request."""

    def ask(self, task: str, img: bytes, k: Any) -> bytes:
        if not self.asked:
            self.asked.append(len(k[2]))
            raise RowError("the worker was killed")
        return super().ask(task, img, k)


def test_a_worker_that_did_not_die_of_a_row_costs_none() -> None:
    assert score_rows(Killed(5), "classify", False, [(0, b"a"), (1, None), (2, b"b")]) == ["0", None, "2"]


def test_no_request_has_more_rows_than_the_network_takes() -> None:
    """The time that a request may take is that of so many images."""
    model = Deadly(4)
    assert score_rows(model, "classify", False, [(n, b"a") for n in range(10)]) == [str(n) for n in range(10)]
    assert model.asked == [4, 4, 2]
    assert score_rows(model, "classify", False, []) == []


def test_results_come_back_as_they_left() -> None:
    for function, results in (
        ("classify", ['(1,"gr\u00fcn",0.5)', None, ""]),
        ("segment", [b"\0PNG", None, b""]),
    ):
        assert protocol.unpack_results(protocol.pack_results(results), function, len(results)) == results
