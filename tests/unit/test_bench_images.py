"""The harness's images: of the size that a case names, and calibration apart from comparison."""

from __future__ import annotations

import pytest

from dbinfer.bench.measure import image_files
from dbinfer.bench.networks import _calibration
from dbinfer.bench.report import Case
from dbinfer.images import builtin

pytest.importorskip("sklearn")


def test_28x28_are_held_out_digits() -> None:
    heldout = [data for data, _ in builtin.digit_files("heldout")]
    assert image_files(Case("digits", "f32", "28x28", "classify")) == heldout[:256]


def test_other_sizes_are_photographs() -> None:
    assert image_files(Case("unet", "f32", "100x80", "segment")) == builtin.photograph_files((100, 80), 32)


@pytest.mark.parametrize("network", ["digits", "unet"])
def test_an_int8_network_is_never_compared_on_images_it_was_calibrated_with(network: str) -> None:
    calibration, compared = _calibration(network)
    assert set(calibration).isdisjoint(compared)
