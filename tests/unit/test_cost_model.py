"""The cost of a row follows what the runtime does, and processes share cores as an operating system shares them."""

from __future__ import annotations

import cv2
import numpy as np
import pytest

from dbinfer.plan.cost import (
    GROUPS,
    Coefficients,
    Load,
    Network,
    Picture,
    crowd,
    decode_terms,
    finish_terms,
    fit,
    fit_terms,
    group_seconds,
    last_end,
    part,
    row_seconds,
    row_terms,
    statement_seconds,
    terms,
)
from dbinfer_udf.image import resize as runtime
from dbinfer_udf.image.decode import Decoder, Target

NET = Network("net", "f32", "classification", 224, 224, 3, milliseconds=5.0)
PHOTO = Picture("JPEG", 500, 375, 51_000)


def coefficients(**crowded: float) -> Coefficients:
    seconds = {"infer": 1.0, "jpeg_byte": 1e-8, "row_engine": 1e-4, "row_backend": 1e-5}
    return Coefficients({}, seconds, crowded, {"engine": 0.1, "backend": 0.2}, {})


@pytest.mark.parametrize(
    "size", [(224, 224), (500, 375), (1000, 750), (2000, 1500), (4000, 3000), (700, 5000)]
)
def test_pictures_are_decoded_at_the_part_that_the_runtime_takes(size: tuple[int, int]) -> None:
    data = cv2.imencode(".jpg", np.zeros((size[1], size[0], 3), np.uint8))[1].tobytes()
    image, _ = Decoder("RGB", target=Target(224, 224))(data)
    by = part(Picture("JPEG", *size, len(data)), NET)
    assert abs(size[0] / by - image.shape[1]) <= 1
    assert decode_terms(Picture("JPEG", *size, 1), by)["jpeg_out"] == pytest.approx(
        image[..., 0].size, rel=0.02
    )


@pytest.mark.parametrize(
    "size", [(300, 300), (500, 375), (900, 300), (1000, 750), (1400, 1400), (4000, 3000)]
)
def test_samples_and_halves_are_those_that_the_runtime_makes(
    size: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = {"halved": 0, "sampled": 0}
    half, sampled = runtime._half, runtime._sampled

    def counting_half(image: np.ndarray) -> np.ndarray:
        made["halved"] += image.size
        return half(image)

    def counting_samples(image: np.ndarray, *rest: float) -> np.ndarray:
        found = sampled(image, *rest)  # type: ignore[arg-type]
        made["sampled"] += found.size
        # the halves after it belong to the samples
        monkeypatch.setattr(runtime, "_half", half)
        return found

    monkeypatch.setattr(runtime, "_half", counting_half)
    monkeypatch.setattr(runtime, "_sampled", counting_samples)
    runtime.shrink(np.zeros((size[1], size[0], 3), np.uint8), np.zeros((224, 224, 3), np.uint8))
    found = fit_terms(Picture("PNG", *size, 1), NET)
    assert found["fit_sample"] == made["sampled"]
    assert found["fit_half"] == pytest.approx(made["halved"], rel=0.01)


def test_between_two_and_four_samples_areas_are_exact(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runtime, "_sampled", None)
    runtime.shrink(np.zeros((480, 640, 3), np.uint8), np.zeros((224, 224, 3), np.uint8))
    found = fit_terms(Picture("PNG", 640, 480, 1), NET)
    assert found == {"fit": 1.0, "fit_area": 640 * 480 * 3, "fit_half": 0.0}


def test_a_picture_of_the_right_size_is_copied_and_a_smaller_one_grows() -> None:
    assert "fit_copy" in fit_terms(Picture("PNG", 224, 224, 1), NET)
    assert "fit_grow" in fit_terms(Picture("PNG", 100, 100, 1), NET)


def test_short_networks_run_in_the_backend_and_others_in_the_engine() -> None:
    fast = Network("fast", "f32", "classification", 28, 28, 1, milliseconds=0.1)
    assert set(row_terms(PHOTO, fast)) == {"row_backend", "row_backend_byte"}
    assert set(row_terms(PHOTO, NET)) == {"row_engine", "row_engine_byte"}
    for isolation, there in (("always", True), ("never", False)):
        network = Network(
            "any", "f32", "classification", 28, 28, 1, 0.1 if there else 9.0, isolation=isolation
        )
        assert network.in_engine is there


def test_masks_cost_by_the_picture() -> None:
    network = Network("unet", "f32", "segmentation", 512, 512, 3, 90.0)
    assert finish_terms(PHOTO, network) == {"segmentation": 1.0, "mask_pixel": 500 * 375}


def test_a_row_is_the_sum_of_its_terms() -> None:
    assert set(terms(PHOTO, NET)) == set(GROUPS)
    assert row_seconds(coefficients(), (PHOTO,), NET) == pytest.approx(0.005 + 51_000e-8 + 1e-4)


def test_busy_cores_slow_each_group_in_its_own_way() -> None:
    found = coefficients(infer=1.5)
    alone, beside = (group_seconds(found, PHOTO, NET, share) for share in (0.0, 1.0))
    assert beside["infer"] == pytest.approx(1.5 * alone["infer"])
    assert beside["decode"] == alone["decode"]
    assert [crowd(n, 4) for n in (1, 2, 4, 9)] == [0, pytest.approx(1 / 3), 1, 1]
    assert crowd(3, 1) == 0


def test_processes_get_equal_shares_of_the_cores() -> None:
    def seconds(cores: int):  # type: ignore[no-untyped-def]
        return lambda processes: max(1.0, processes / cores)

    assert last_end([10], seconds(2)) == 10
    assert last_end([10, 10], seconds(2)) == 10
    assert last_end([10, 10, 10], seconds(2)) == 15
    # three at two thirds of a core until the first two end at 15; then the last one has a core for itself
    assert last_end([10, 10, 40], seconds(2)) == 45
    assert last_end([0, 0, 30], seconds(2)) == 30


def test_a_start_counts_for_fresh_processes_only() -> None:
    found = coefficients()
    old, new = (statement_seconds(found, (PHOTO,), NET, Load((100.0, 100.0), 2, fresh)) for fresh in (0, 1))
    # they share one scan, so each bears half of it
    assert new - old == pytest.approx(0.05)


def test_the_fit_finds_what_made_the_samples() -> None:
    true = {"a": 2e-6, "b": 3e-9}
    amounts = [{"a": 1.0, "b": float(b)} for b in (10, 1_000, 100_000)]
    found = fit([(each, sum(true[name] * value for name, value in each.items())) for each in amounts])
    assert found == pytest.approx(true)


def test_no_coefficient_is_below_zero() -> None:
    samples = [({"a": 1.0, "b": 1.0}, 5.0), ({"a": 1.0, "b": 2.0}, 4.0), ({"a": 1.0, "b": 3.0}, 3.0)]
    assert set(fit(samples)) == {"a"}
    assert fit([]) == {}
