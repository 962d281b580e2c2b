"""The sizes of batches, which users choose by their images, make no backend grow without bound."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer_udf import batch_rows, model


class Network:
    """Stands for a compiled network; the test counts those that are alive."""

    alive = 0

    def __init__(self, rows: int) -> None:
        self.rows = rows
        Network.alive += 1

    def __del__(self) -> None:
        Network.alive -= 1


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model without its files: only what batch_network needs."""
    Network.alive = 0
    monkeypatch.setattr(model, "same_results", lambda one, wide: True)
    found = model.Model.__new__(model.Model)
    found.compiled = Network(1)
    found._compile = Network
    found._wide = (1, found.compiled)
    return found


def test_sizes_are_powers_of_two() -> None:
    """Each size from 4 to 32 compiled a network of its own: 504 MB became 4.57 GB with one model of 73 MB."""
    sizes = {batch_rows.rows_for(bytes(size)) for size in range(0, 1_000_000, 3700)}
    assert sizes == {1, 4, 8, 16, 32}
    by_results = {batch_rows.rows_for(b"", size) for size in range(0, 4_000_000, 3700)}
    assert by_results == {1, 4, 8, 16, 32}


@pytest.mark.parametrize(
    ("alone", "within", "expected"),
    [(1.0, 0.5, True), (1.0, 0.95, False), (1.0, None, False), (None, 0.5, False), ("", "", False)],
)
def test_batches_must_win_clearly(alone: object, within: object, expected: bool) -> None:
    assert batch_rows.pays(alone, within) is expected


def test_one_network_for_batches_is_kept(loaded: Any) -> None:
    for rows in (4, 8, 16, 32, 1, 4, 32, 8):
        assert loaded.batch_network(rows).rows == rows
        assert Network.alive <= 2
    assert loaded.batch_network(8) is loaded.batch_network(8)
