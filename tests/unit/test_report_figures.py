"""The figures of a report: what the formulas say on small cases that a reader can work out."""

from __future__ import annotations

import math
from typing import Any

import cv2
import numpy as np
import pytest

from dbinfer.base.errors import DataError
from dbinfer.report import figures, sections
from dbinfer.report.asked import Notices
from dbinfer.report.figures import (
    OTHERS,
    SHOWN_CLASSES,
    Answer,
    answers,
    calibration,
    compare,
    confusion,
    counts,
    histogram,
    mcnemar,
    peaks,
)
from dbinfer.report.pictures import Picture, encode, evaluate, overlap, thumbnail, worst_first
from dbinfer.report.sections import class_section, version_section
from dbinfer.report.tables import Row


def row(key: str, number: int | None, name: str | None, score: float | None, label: str | None = None) -> Row:
    return Row((key,), True, label, (number, name, score))


def answer(key: str, name: str, truth: str | None = None, score: float = 0.9) -> Answer:
    return Answer((key,), name, score, truth)


def png(pixels: Any) -> bytes:
    return bytes(cv2.imencode(".png", np.asarray(pixels, np.uint8))[1].tobytes())


def test_labels_are_names_or_numbers_of_classes() -> None:
    rows = [row("a", 0, "cat", 0.9, "cat"), row("b", 1, None, 0.8, "1"), row("c", None, None, None, "cat")]
    assert [(a.name, a.truth, a.wrong) for a in answers(rows, ["cat", "dog"])] == [
        ("cat", "cat", False),
        ("dog", "dog", False),
    ]


def test_labels_that_no_class_has_are_one_sentence_and_a_few_count_as_wrong() -> None:
    with pytest.raises(DataError, match="no label of the images is a class of the model: 'cow', 'pig'"):
        answers([row("a", 0, "cat", 0.9, "pig"), row("b", 0, "cat", 0.9, "cow")], ["cat"])
    mixed = answers([row("a", 0, "cat", 0.9, "pig"), row("b", 0, "cat", 0.9, "cat")], ["cat"])
    assert [a.wrong for a in mixed] == [True, False]


def test_numbers_stand_over_bins_that_no_near_one_hides() -> None:
    values = [
        n / 20 + 0.01 for n, count in enumerate([5, 9, 5, 0, 0, 2, 2, 2, 0, 0, 1]) for _ in range(count)
    ]
    bins = histogram(values)
    assert peaks([one for one in bins if one.number]) == {1, 5, 10}


def test_a_path_keeps_its_end() -> None:
    assert sections.tail("a/b.png", 7) == "a/b.png"
    assert sections.tail("a/folder/b.png", 7) == "…/b.png"


def test_the_confusion_matrix_has_each_image_once() -> None:
    found = [answer("a", "x", "x"), answer("b", "y", "x"), answer("c", "y", "y"), answer("d", "y")]
    cells = [cell for line in confusion(found, ["x", "y"]) for cell in line]
    assert [(c.truth, c.name, len(c.keys)) for c in cells] == [
        ("x", "x", 1),
        ("x", "y", 1),
        ("y", "x", 0),
        ("y", "y", 1),
    ]


def test_many_classes_become_twenty_with_the_most_mistakes() -> None:
    names = [f"c{n}" for n in range(100)]
    found = [answer(name, name, name) for name in names] + [answer("z", "c5", "c77")]
    lines = confusion(found, names)
    assert len(lines) == SHOWN_CLASSES
    assert {"c5", "c77", OTHERS} <= {line[0].truth for line in lines}
    assert sum(len(cell.keys) for line in lines for cell in line) == 101
    assert len(counts(found, names)) == 100


def test_calibration_of_a_perfect_and_a_boasting_model() -> None:
    honest = [answer(str(n), "x", "x" if n < 8 else "y", 0.8) for n in range(10)]
    boasting = [answer(str(n), "x", "x" if n < 5 else "y", 0.95) for n in range(10)]
    assert (found := calibration(honest)) is not None
    assert found.error == pytest.approx(0)
    assert (found := calibration(boasting)) is not None
    assert found.error == pytest.approx(0.45)
    assert calibration([answer("a", "x", "x", 200.0)]) is None
    assert calibration([answer("a", "x")]) is None


def test_a_histogram_counts_every_finite_value_once() -> None:
    bins = histogram([0.0, 0.5, 1.0, math.nan, math.inf], [True, False, False, True, True])
    assert [(b.place, b.number, b.wrong) for b in bins if b.number] == [(0, 1, 1), (10, 1, 0), (19, 1, 0)]
    assert histogram([5.0, 5.0])[0].low == 5
    assert histogram([math.nan]) == []


def test_pictures_of_cells_have_a_limit() -> None:
    found = [answer(f"{n}", f"c{n % 20}", f"c{(n // 20) % 20}") for n in range(8000)]
    section = class_section(found, [f"c{n}" for n in range(20)])
    assert len(list(section.keys())) < 400
    assert sum(cell.number for line in section.confusion for cell in line) == 8000


def test_versions_won_and_lost() -> None:
    older = [answer("a", "x", "x"), answer("b", "y", "x"), answer("c", "x", "y"), answer("gone", "x", "x")]
    newer = [answer("a", "y", "x"), answer("b", "x", "x"), answer("c", "z", "y"), answer("new", "x", "x")]
    two = compare(newer, older)
    assert (two.images, two.agreed, len(two.won), len(two.lost), len(two.changed)) == (3, 0, 1, 1, 3)
    assert two.chance == 1.0


@pytest.mark.parametrize(("images", "doubt"), [(2, True), (20, False)])
def test_a_few_images_won_may_be_chance(images: int, doubt: bool) -> None:
    older, newer = ([answer(str(n), name, "x") for n in range(images)] for name in ("y", "x"))
    sentence = version_section(compare(newer, older), "digits@2", "digits@1").sentence
    assert sentence.startswith("digits@2 is right more often")
    assert ("which may be chance" in sentence) == doubt


def test_mcnemar_is_the_binomial_test() -> None:
    assert mcnemar(5, 0) == pytest.approx(2 / 32)
    assert mcnemar(1, 3) == pytest.approx(2 * (1 + 4) / 16)
    assert mcnemar(20_000, 10_000) < 1e-9


def test_iou_and_dice() -> None:
    a, b = np.zeros((4, 4), np.uint8), np.zeros((4, 4), np.uint8)
    a[0], b[0, :2], b[1, :2] = 255, 255, 255
    assert overlap(a, b) == (pytest.approx(2 / 6), pytest.approx(0.5))
    assert overlap(np.zeros_like(a), np.zeros_like(a)) == (1.0, 1.0)
    classes = np.array([[1, 2]], np.uint8)
    assert overlap(classes, np.array([[1, 1]], np.uint8))[0] == pytest.approx((0.5 + 0) / 2)


def test_a_mask_is_judged_also_against_a_truth_of_another_size_and_of_zeros_and_ones() -> None:
    image, mask = png(np.full((8, 8, 3), 90)), np.zeros((8, 8))
    mask[:4] = 255
    half = np.zeros((4, 4))
    half[:2] = 1
    good = evaluate(Picture(("a",), image, png(half), png(mask)))
    assert good.dice == 1.0
    assert "scaled" in good.problem
    broken = evaluate(Picture(("b",), image, b"no image", png(mask)))
    assert broken.dice is None
    assert broken.problem
    bad = evaluate(Picture(("c",), image, png(mask[::-1]), png(mask)))
    assert [m.key for m in worst_first([good, broken, bad])] == [("c",), ("a",), ("b",)]


def test_the_map_keeps_distances_in_a_plane() -> None:
    corners = [[0, 0, 0.0], [2, 0, 0], [0, 1, 0], [2, 1, 0]]
    found = figures.lay_out([Row((str(n),), True, "x", (v,)) for n, v in enumerate(corners)], 8)
    assert found is not None
    assert found.explained == pytest.approx(1)
    assert {(round(p.x), round(p.y)) for p in found.points} == {(0, 0), (1, 0), (0, 1), (1, 1)}
    one = figures.lay_out([Row(("a",), True, None, ([1.0],)), Row(("b",), True, None, ([math.nan],))], 8)
    assert one is not None
    assert len(one.points) == 1
    with pytest.raises(DataError, match="have 1 to 2 numbers"):
        figures.lay_out([Row(("a",), True, None, ([1.0],)), Row(("b",), True, None, ([1.0, 2.0],))], 8)


def test_thumbnails_are_small_and_say_what_is_wrong() -> None:
    assert thumbnail(png(np.zeros((28, 28)))).uri.startswith("data:image/png;base64,")
    large = thumbnail(png(np.random.default_rng(0).integers(0, 255, (500, 300, 3))))
    assert (large.width, large.height) == (58, 96)
    assert len(large.uri) < 20_000
    assert thumbnail(b"\x89PNG\r\n\x1a\n").problem
    assert thumbnail(None).problem
    assert encode(np.zeros((1, 1), np.uint8)).small


def test_a_share_below_one_is_not_written_as_one(subtests: pytest.Subtests) -> None:
    for value, text in [(0.99999, "99.9 %"), (1.0, "100.0 %"), (0.5, "50.0 %"), (None, "unknown")]:
        with subtests.test(value=value, text=text):
            assert sections.percent(value) == text


def test_texts_are_one_line_of_signs_that_are_seen() -> None:
    assert sections.cut("a\n\tb\x00\u202ec" + "d" * 50, 10) == "a b??cddd…"
    assert (sections.compact(999), sections.compact(1234)) == ("999", "1.2k")


@pytest.mark.parametrize(
    ("notice", "detail"), [("NOTICE:", "DETAIL:"), ("HINWEIS:", "DETAIL:"), ("NOTICE :", "DÉTAIL :")]
)
def test_notices_are_understood_in_the_language_of_the_server(notice: str, detail: str) -> None:
    told = Notices()
    told.append(f"{notice}  dbinfer: 5 rows scored, 2 known from kept\n")
    told.append(
        f'DEBUG:  dbinfer: a round of dbinfer.estimate\n{detail}  [{{"part": null, "scored": 7}}]\nCONTEXT:  x\n'
    )
    told.append(f"{notice}  relation is there, skipping\n")
    assert told.said == ["5 rows scored, 2 known from kept"]
    assert told.rounds == [[{"part": None, "scored": 7}]]
