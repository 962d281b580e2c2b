"""A row of a batch that ends its worker, where bad images are to give NULL."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer_udf.engine.errors import RowError
from dbinfer_udf.engine.remote_batch import Waiting


class Deadly:
    """Stands for the engine's model for a batch, whose worker one image ends."""

    def __init__(self) -> None:
        self.facts = {"rows": 4}

    def ask(self, task: str, img: bytes, k: Any) -> bytes:
        if any(file == b"?" for _, file in k[1]):
            raise RowError("the worker was killed")
        return b",".join(b"%d:%s" % (number, b"-" if file is None else file) for number, file in k[1])


def test_one_deadly_row_of_a_batch_is_null_and_the_others_have_their_results() -> None:
    waiting = Waiting("s", b"x", lambda rows: Deadly())
    rows = [(0, b"a"), (1, b"?"), (2, None), (3, b"b")]
    assert waiting.results(True, rows) == b"0:a,1:-,2:-,3:b"
    with pytest.raises(RowError):
        waiting.results(False, rows)
