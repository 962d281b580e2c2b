"""The sizes of batches, which users choose by their images, make no backend grow without bound."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dbinfer_udf import batch, batch_rows, model
from dbinfer_udf.errors import UsageError


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
    found.batch = None
    return found


def test_sizes_are_powers_of_two() -> None:
    """Each size from 4 to 32 compiled a network of its own: 504 MB became 4.57 GB with one model of 73 MB."""
    sizes = {batch_rows.rows_for(bytes(size)) for size in range(0, 200_000, 37)}
    assert sizes == {1, 4, 8, 16, 32}


def test_one_network_for_batches_is_kept(loaded: Any) -> None:
    for rows in (4, 8, 16, 32, 1, 4, 32, 8):
        assert loaded.batch_network(rows).rows == rows
        assert Network.alive <= 2
    assert loaded.batch_network(8) is loaded.batch_network(8)


def test_results_that_cannot_be_collected_end_the_scan_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before: `array size exceeds the maximum allowed`, when every row was scored."""
    manifest = SimpleNamespace(labels=["a label of 26 characters.."] * 2, activation="none")
    network = SimpleNamespace(rows=4, infer=lambda: None, inputs=[None] * 4, output=np.eye(2)[[0, 1, 0, 1]])
    stub: Any = SimpleNamespace(
        require=lambda *words: None,
        batch_network=lambda size: network,
        manifest=manifest,
        decode=lambda img: (img, None),
        resize=lambda image, target: None,
    )
    monkeypatch.setattr(batch_rows, "MOST_BYTES", 10 * (120 + 4 * 48))
    scan = batch.Batch(stub, "scan", 4)
    for number in range(40):
        scan.add(number, b"img", "error")
    for number in range(3):
        scan.add(number, b"img", "error")
    with pytest.raises(UsageError, match="more than 40 rows") as caught:
        scan.add(3, b"img", "error")
    assert caught.value.sqlstate == "54000"
    assert "classify_into" in caught.value.hint
