"""COCO's average precision on boxes that one can count by hand."""

from __future__ import annotations

import numpy as np
import pytest

from dbinfer.base.errors import DataError
from dbinfer.images.boxes import Boxes, average_precision

NOTHING = np.zeros((0, 6), np.float32)


def image(found: list[tuple[float, ...]], true: list[tuple[float, ...]]) -> Boxes:
    return Boxes(np.array(found, np.float32).reshape(-1, 6), np.array(true, np.float32).reshape(-1, 5))


def test_all_found_exactly() -> None:
    images = [image([(0, 0, 10, 10, 0.9, 3)], [(0, 0, 10, 10, 3)]), image([], [])]
    assert average_precision(images) == pytest.approx({"map50": 1, "map50_95": 1})


def test_an_overlap_of_six_tenths_counts_at_three_of_ten_thresholds() -> None:
    images = [image([(0, 0, 10, 6.01, 0.9, 0)], [(0, 0, 10, 10, 0)])]
    assert average_precision(images) == pytest.approx({"map50": 1, "map50_95": 0.3})


def test_a_false_box_before_the_true_one_halves_the_precision() -> None:
    images = [image([(50, 50, 60, 60, 0.9, 0), (0, 0, 10, 10, 0.8, 0)], [(0, 0, 10, 10, 0)])]
    assert average_precision(images)["map50"] == pytest.approx(0.5)


def test_a_second_box_on_one_object_is_false() -> None:
    images = [
        image([(0, 0, 10, 10, 0.9, 0), (0, 0, 10, 10, 0.8, 0)], [(0, 0, 10, 10, 0)]),
        image([(0, 0, 10, 10, 0.7, 0)], [(0, 0, 10, 10, 0)]),
    ]
    # Recall 0.5 at precision 1, then recall 1 at 2/3: 51 and 50 of COCO's 101 points
    assert average_precision(images)["map50"] == pytest.approx((51 + 50 * 2 / 3) / 101)


def test_classes_count_alike_and_those_without_a_true_box_not_at_all() -> None:
    images = [
        image([(0, 0, 10, 10, 0.9, 0), (0, 0, 10, 10, 0.9, 7)], [(0, 0, 10, 10, 0), (20, 20, 30, 30, 1)])
    ]
    assert average_precision(images)["map50"] == pytest.approx(0.5)


def test_nothing_found_is_zero() -> None:
    assert average_precision([image([], [(0, 0, 10, 10, 0)])]) == {"map50": 0, "map50_95": 0}


def test_nothing_to_find() -> None:
    with pytest.raises(DataError, match="no image has a true box"):
        average_precision([image([(0, 0, 10, 10, 0.9, 0)], [])])


def test_it_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    average_precision([image([], [(0, 0, 10, 10, 0)])])
    assert capsys.readouterr() == ("", "")
