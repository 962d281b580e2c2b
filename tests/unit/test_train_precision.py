"""`--precision bf16`: the processor multiplies in bf16; weights, sums and the saved model stay f32."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from train_runs import difference, final_weights, launched, needs_horovod

from dbinfer.base.errors import DbinferError
from dbinfer.train import TrainJob, device, run
from dbinfer_udf.host.process import precisions

tf = pytest.importorskip("tensorflow")

needs_bf16 = pytest.mark.skipif(
    "bf16" not in precisions(), reason="this processor has no instructions for bf16"
)


@pytest.fixture
def in_f32() -> Iterator[None]:
    """What other tests of this process are computed in."""
    yield
    device.choose_precision("f32")


@needs_bf16
@pytest.mark.usefixtures("in_f32")
@pytest.mark.parametrize(("precision", "wanted"), [("bf16", 1.0), ("f32", 1 + 2**-10)])
def test_factors_are_rounded(precision: str, wanted: float) -> None:
    """The mantissa of bf16 has 7 bits, that of f32 has 23."""
    device.choose_precision(precision)
    product = tf.function(tf.matmul)
    found = product(tf.fill((64, 64), np.float32(1 + 2**-10)), tf.eye(64))
    assert set(np.unique(found)) == {np.float32(wanted)}


@needs_bf16
@needs_horovod
def test_a_network_learns_in_it_and_is_saved_as_usual(tmp_path: Path) -> None:
    import keras

    job = TrainJob("digits", "digits", out=str(tmp_path / "f32"), ranks=2, epochs=3, device="cpu")
    short = replace(job, precision="bf16", out=str(tmp_path / "bf16"))
    for one in (job, short):
        launched(one)
    # A rounding of a factor is wrong by up to 2**-8: far more than those of f32
    assert difference(final_weights(job), final_weights(short)) > 1e-4
    model = keras.saving.load_model(short.folder / "digits.keras")
    assert {layer.compute_dtype for layer in model.layers} == {"float32"}
    history = (short.folder / "history.csv").read_text().splitlines()
    last = dict(zip(history[0].split(","), history[-1].split(","), strict=True))
    assert float(last["val_accuracy"]) > 0.85


@pytest.mark.parametrize("strategy", ["sandblaster", "split"])
def test_strategies_that_compute_in_f32_say_so(strategy: str, tmp_path: Path) -> None:
    if strategy == "split":
        pytest.importorskip("jax")
    job = TrainJob("digits", "digits", strategy=strategy, precision="bf16", ranks=2, out=str(tmp_path))
    with pytest.raises(DbinferError, match=f"precision is bf16, but the strategy {strategy} computes in f32"):
        run(job)


def test_where_it_would_bring_nothing_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def said(*given: Any) -> str:
        with pytest.raises(DbinferError) as caught:
            device.choose_precision("bf16", *given)
        return str(caught.value)

    assert "the precision bf16 is for processors, but this host's GPUs compute" in said(["GPU:0"])
    monkeypatch.setattr(device, "precisions", lambda: [])
    assert "the precision bf16 needs a processor with one of avx512_bf16, amx_bf16, bf16" in said()
