"""The harness's images: of the size that a cell names."""

from __future__ import annotations

import pytest

from dbinfer import samples
from dbinfer.bench.images import make_images
from dbinfer.bench.networks import _calibration

pytest.importorskip("sklearn")


def test_28x28_are_held_out_digits_and_more_than_there_are_repeat_them() -> None:
    heldout = [data for data, _ in samples.digit_files("heldout")]
    assert make_images("28x28", 400) == (heldout * 2)[:400]


def test_other_sizes_are_photographs() -> None:
    assert make_images("100x80", 3, seed=1) == samples.photograph_files((100, 80), 3, seed=1)


@pytest.mark.parametrize("network", ["digits", "unet"])
def test_an_int8_network_is_never_compared_on_images_it_was_calibrated_with(network: str) -> None:
    calibration, compared = _calibration(network)
    assert set(calibration).isdisjoint(compared)
