"""The sizes of batches, which users choose by their images, make no backend grow without bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models

from dbinfer_udf import tasks
from dbinfer_udf.errors import ModelError
from dbinfer_udf.model import model


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
    sizes = {tasks.rows_for(bytes(size)) for size in range(0, 1_000_000, 3700)}
    assert sizes == {1, 4, 8, 16, 32}
    by_results = {tasks.rows_for(b"", size) for size in range(0, 4_000_000, 3700)}
    assert by_results == {1, 4, 8, 16, 32}


def test_batches_must_win_clearly(subtests: pytest.Subtests) -> None:
    for alone, within, expected in [
        (1.0, 0.5, True),
        (1.0, 0.95, False),
        (1.0, None, False),
        (None, 0.5, False),
        ("", "", False),
    ]:
        with subtests.test(alone=alone, within=within, expected=expected):
            assert tasks.pays(alone, within) is expected


def test_one_network_for_batches_is_kept(loaded: Any) -> None:
    for rows in (4, 8, 16, 32, 1, 4, 32, 8):
        assert loaded.batch_network(rows).rows == rows
        assert Network.alive <= 2
    assert loaded.batch_network(8) is loaded.batch_network(8)


def test_a_network_with_another_input_than_its_manifest_is_refused(tmp_path: Path) -> None:
    """Stored past `dbinfer deploy`: the image never reached it, and once it answered with memory of others."""
    spec, entry = engine_models.ticket(tiny_models.colour_classifier(tmp_path), tmp_path / "cache")
    assert engine_models.in_process(spec, entry)
    larger = {**spec, "manifest": {**spec["manifest"], "height": 16}}
    with pytest.raises(ModelError, match=r"takes uint8 of 1 x 8 x 8 x 3, .* says uint8 of 1 x 16 x 8 x 3"):
        engine_models.in_process(larger, entry)
    raw = tiny_models.colour_classifier(tmp_path, "raw")
    for kind in ("xml", "bin"):
        Path(entry.path(kind)).write_bytes(raw.with_suffix("." + kind).read_bytes())
    with pytest.raises(ModelError, match=r"takes float32 of 1 x 8 x 8 x 3"):
        engine_models.in_process(spec, entry)
