"""Boxes of training data: read, refused, scaled and moved with their images, and judged."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from float32 import tolerance

from dbinfer.base.errors import DataError, TrainError, UsageError
from dbinfer.images import boxes, builtin
from dbinfer.images.builtin import stroke_files, write_written, written
from dbinfer.train import TrainJob, run
from dbinfer.train.loader import Loader, Pipeline, Seed
from dbinfer.train.one_rank import found, precision
from dbinfer.train.options import STRATEGIES
from dbinfer.train.ranks import Alone
from dbinfer.train.setup import make_setup
from dbinfer.train.source import Memory
from dbinfer_models import NETWORKS
from dbinfer_udf.manifest import Manifest

NUMBERS = {"cat": 0, "dog": 1}
BOX = {"label": "dog", "x": 10, "y": 20.5, "width": 30, "height": 5}
MANIFEST = Manifest(task="detection", height=64, width=128, labels=("cat", "dog"))


def test_packed_and_unpacked() -> None:
    data = boxes.packed([BOX, {**BOX, "label": "cat", "score": 0.5}], NUMBERS, "it")
    np.testing.assert_array_equal(boxes.unpacked(data), [[10, 20.5, 40, 25.5, 1], [10, 20.5, 40, 25.5, 0]])
    assert boxes.unpacked(boxes.packed([], NUMBERS, "it")).shape == (0, 5)


def test_bad_boxes_are_named(subtests: pytest.Subtests) -> None:
    for given, message in [
        ({"label": "dog"}, r'the boxes of it are \{"label": "dog"\}, but must be a list'),
        ([7], "box 1 of it is 7, but must be an object"),
        ([BOX, {"x": 1}], "box 2 of it has the label null, but must have a text or a whole number"),
        ([{**BOX, "label": 1.5}], "box 1 of it has the label 1.5, but must have a text or a whole number"),
        ([{**BOX, "label": "cow"}], "box 1 of it has the label 'cow', but the classes are cat, dog"),
        ([{**BOX, "x": None}], "box 1 of it has the x null, but must have a number"),
        ([{**BOX, "y": "3"}], 'box 1 of it has the y "3", but must have a number'),
        ([{**BOX, "width": 0}], "box 1 of it has 0 x 5 pixels, but must have an area"),
        ([{**BOX, "height": -2}], "box 1 of it has 30 x -2 pixels, but must have an area"),
        ([BOX] * 101, "it has 101 boxes, but an image must not have more than 100"),
    ]:
        with subtests.test(given=given, message=message), pytest.raises(DataError, match=message):
            boxes.packed(given, NUMBERS, "it")


def test_classes_are_in_order() -> None:
    assert boxes.in_order({"10", "9", "1"}) == ("1", "9", "10")
    assert boxes.in_order({"10", "9", "a"}) == ("10", "9", "a")


def _loader(given: list[dict[str, Any]], manifest: Manifest = MANIFEST) -> Loader:
    pixels = np.zeros((100, 50, 3), np.uint8)
    for box in given:
        x, y = round(box["x"]), round(box["y"])
        pixels[max(y, 0) : y + box["height"], max(x, 0) : x + box["width"]] = 255
    data = boxes.packed(given, NUMBERS, "image 0")
    return Loader(Memory([(builtin.encode(".png", pixels), data)], "image"), manifest)


WHITE = {"label": "dog", "x": 10, "y": 20, "width": 20, "height": 40}


def test_boxes_follow_their_pixels_into_the_tensor(subtests: pytest.Subtests) -> None:
    for resize in ["standard", "fit_to_window", "fit_to_window_letterbox", "crop"]:
        with subtests.test(resize=resize):
            image, truth = _loader([WHITE], replace(MANIFEST, resize=resize)).load(0)
            assert truth.shape == (100, 5)
            assert (truth[1:, 4] == -1).all()
            x, y, width, height = cv2.boundingRect((image[:, :, 0] > 127).astype(np.uint8))
            np.testing.assert_allclose(truth[0], [x, y, x + width, y + height, 1], atol=1)


def test_boxes_follow_their_pixels_when_the_image_is_changed(subtests: pytest.Subtests) -> None:
    for seed in range(5):
        with subtests.test(seed=seed):
            image, truth = _loader([WHITE], replace(MANIFEST, width=64)).load(0, Seed(seed, 0, 1))
            x, y, width, height = cv2.boundingRect((image[:, :, 0] > 100).astype(np.uint8))
            np.testing.assert_allclose(truth[0], [x, y, x + width, y + height, 1], atol=1.2)


def test_what_reaches_over_the_edge_is_cut_off() -> None:
    truth = _loader([{**WHITE, "x": -10}], replace(MANIFEST, width=50, height=100)).load(0)[1]
    np.testing.assert_array_equal(truth[0], [0, 20, 10, 60, 1])


def test_a_box_outside_of_its_image() -> None:
    with pytest.raises(
        DataError, match="box 1 of image 0 begins at 50, 20, outside of the image of 50 x 100"
    ):
        _loader([{**WHITE, "x": 50}]).load(0)


def test_written_images_are_always_the_same_and_know_where_their_ink_is(tmp_path: Path) -> None:
    photographs = list(written("heldout", range(30)))
    assert list(written("heldout", [7])) == photographs[7:8]
    assert {len(one.boxes) for one in photographs} == {1, 2, 3, 4}
    assert {box["label"] for one in photographs for box in one.boxes} == set("0123456789")
    given = json.loads(write_written(tmp_path, "heldout", 3).read_text())
    assert given == {f"{number:04d}.jpg": one.boxes for number, one in enumerate(photographs[:3])}
    assert (tmp_path / "0002.jpg").read_bytes() == photographs[2].image


def test_digits_of_a_written_image_do_not_overlap() -> None:
    for one in written("train", range(100)):
        covered = np.zeros((128, 128), int)
        for box in one.boxes:
            x, y, width, height = (int(box[key]) for key in ("x", "y", "width", "height"))
            covered[y : y + height, x : x + width] += 1
            assert x + width <= 128
            assert y + height <= 128
        assert covered.max() == 1


def test_maps_become_boxes() -> None:
    maps = np.zeros((16, 32, 6), np.float32)
    maps[5, 7] = (0, 0.9, 20, 12, 0.25, 0.5)
    maps[5, 8] = (0.6, 0.8, 9, 9, 0, 0)  # the higher score of dog is beside it, but of cat it is the highest
    maps[15, 31] = (0.5, 0, 40, 40, 0.5, 0.5)  # reaches over the corner
    maps[0, 0] = (0.29, 0, 8, 8, 0, 0)  # too low
    manifest = replace(MANIFEST, threshold=0.3, max_detections=10)
    expected = [
        (19, 16, 39, 28, 0.9, 1),
        (27.5, 15.5, 36.5, 24.5, 0.6, 0),
        (106, 42, 128, 64, 0.5, 0),
    ]
    np.testing.assert_allclose(found(maps, manifest), expected, rtol=1e-6)
    np.testing.assert_allclose(found(maps, replace(manifest, max_detections=1)), expected[:1], rtol=1e-6)
    assert found(np.zeros((16, 32, 6), np.float32), manifest).shape == (0, 6)


class Painted:
    """A network that finds each object of the validation, but takes every third one for another class."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.truths = [pipeline.loader.load(row)[1] for row in range(len(pipeline.loader.samples))]

    def predict_on_batch(self, images: Any) -> Any:
        chosen, self.truths = self.truths[: len(images)], self.truths[len(images) :]
        maps = np.zeros((len(images), 32, 32, 14), np.float32)
        for number, truth in enumerate(chosen):
            for left, top, right, bottom, kind in truth[truth[:, 4] >= 0]:
                x, y = (left + right) / 8, (top + bottom) / 8
                cell = maps[number, int(y), int(x)]
                taken = (int(kind) + 1) % 10 if int(left) % 3 == 0 else int(kind)
                cell[taken], cell[-4:] = 0.9 - left / 1000, (right - left, bottom - top, x % 1, y % 1)
        return maps


class Ranks(Alone):
    """The last of several ranks: hears what the others have found, or what it found itself."""

    def __init__(self) -> None:
        self.found: list[Any] = []

    def gather(self, value: Any) -> list[Any]:
        self.found.append(value)
        return self.found


def test_the_precision_of_several_ranks_is_that_of_one(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    setup = make_setup(TrainJob("finder", "written:200", out=str(tmp_path), batch=16))

    def judged(rank: int, size: int, ranks: Any) -> dict[str, float]:
        pipeline = setup.validation(rank, size)
        assert pipeline is not None
        return precision(Painted(pipeline), pipeline, setup.manifest, ranks)

    ranks = Ranks()
    parts = [judged(rank, 3, ranks) for rank in range(3)]
    whole = judged(0, 1, Alone())
    assert parts[-1] == pytest.approx(whole, abs=1e-3)  # boxes of one score come in another order
    assert 0.2 < whole["val_map50_95"] == pytest.approx(whole["val_map50"], abs=0.02)
    assert whole["val_map50"] < 0.9
    assert precision(None, None, setup.manifest, ranks) == parts[-1]  # a rank without images


def test_a_validation_without_a_box(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no image of the validation has a box"):
        precision(None, None, MANIFEST, Alone())


@pytest.mark.parametrize("strategy", [name for name in STRATEGIES if name != "horovod"])
def test_strategies_that_do_not_find_boxes_say_so(strategy: str, tmp_path: Path) -> None:
    job = TrainJob("finder", "written", out=str(tmp_path), strategy=strategy, ranks=2)
    with pytest.raises(UsageError, match=f"the strategy {strategy} does not train networks that find boxes"):
        run(job)


def test_masks_are_no_boxes(tmp_path: Path) -> None:
    for image, mask in stroke_files("heldout", range(1)):
        (tmp_path / "0.jpg").write_bytes(image)
        (tmp_path / "0_mask.png").write_bytes(mask)
    with pytest.raises(
        TrainError, match="the data is for segmentation, but the network finder is for detection"
    ):
        run(TrainJob("finder", str(tmp_path), out=str(tmp_path / "out")))


@pytest.mark.wide
def test_training_is_judged_and_resumes(tmp_path: Path) -> None:
    pytest.importorskip("tensorflow")
    options = {"base_width": 2}
    job = TrainJob(
        "finder", "written:12", out=str(tmp_path / "whole"), network_options=options, epochs=2, batch=4
    )
    whole = run(job)
    assert set(whole.metrics) == {"loss", "val_loss", "val_map50", "val_map50_95"}
    first = run(replace(job, out=str(tmp_path / "parts"), epochs=1))
    second = run(replace(job, out=str(tmp_path / "parts"), resume="last"))
    # an epoch of three steps, whose longest sums are over the pixels of four images, and another one
    for one, other, steps in zip((first.history[0], second.history[1]), whole.history, (3, 6), strict=True):
        largest = max(other.values.values())
        assert one.values == pytest.approx(other.values, abs=tolerance(largest, steps, 4 * 128 * 128))
    import keras

    model = keras.models.load_model(whole.model, compile=False)
    assert model.output_names == ["heatmap", "size", "offset"]
    assert NETWORKS["finder"].metrics[0] == "map50"
