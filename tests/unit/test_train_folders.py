"""Folders by class and with masks; images that cannot be used."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import pytest
from train_runs import digits_folder, strokes_folder

from dbinfer.base.errors import DataError, TrainError, UsageError
from dbinfer.train import TrainJob, run
from dbinfer.train.data import find_source
from dbinfer.train.setup import make_setup


def _unet(data: Path, **more: object) -> TrainJob:
    options = {"size": 16, "depth": 1, "base_width": 2}
    return TrainJob("unet", str(data), out=str(data.parent / "run"), network_options=options, **more)  # type: ignore[arg-type]


def test_classes_are_the_folders(tmp_path: Path) -> None:
    source = find_source(str(digits_folder(tmp_path / "d", 40)))
    assert (source.task, source.count()) == ("classification", 40)
    assert source.labels == tuple("0123456789")
    samples = source.open(range(40))
    assert all(Path(samples.name(i)).parent.name == source.labels[samples.read(i)[1]] for i in range(40))  # type: ignore[index]


def test_masks_may_be_gif_as_in_carvana(tmp_path: Path) -> None:
    folder = strokes_folder(tmp_path / "s", range(4))
    for mask in folder.glob("*_mask.png"):
        cv2.imwrite(str(mask.with_suffix(".gif")), cv2.imread(str(mask)))
        mask.unlink()
    pipeline = make_setup(_unet(folder, val="none", batch=4)).training(0, 1)
    images, masks = next(iter(pipeline.training(1)))
    assert images.shape == (4, 16, 16, 3)
    assert masks.shape == (4, 16, 16, 1)
    assert set(np.unique(masks)) == {0.0, 1.0}
    assert images.numpy().min() >= 0
    assert 0.5 < images.numpy().max() <= 1


def test_a_shorter_shard_repeats_an_image_so_that_all_have_the_same_steps(tmp_path: Path) -> None:
    setup = make_setup(_unet(strokes_folder(tmp_path / "s", range(7)), val="none", batch=2))
    first, last = setup.training(0, 3), setup.training(2, 3)
    assert first.steps == last.steps == 2
    assert sorted(first.order(1)) == [0, 1, 2]
    assert len(last.order(1)) == 3
    assert set(last.order(1)) == {0, 1}
    assert first.order(1) == first.order(1)
    orders = {tuple(first.order(epoch)) for epoch in range(20)}
    assert len(orders) > 3


def test_ranks_and_epochs_have_orders_of_their_own(tmp_path: Path) -> None:
    setup = make_setup(_unet(strokes_folder(tmp_path / "s", range(16)), val="none"))
    orders = [tuple(setup.training(rank, 2).order(epoch)) for rank in range(2) for epoch in (1, 2)]
    assert len(set(orders)) == 4
    assert {tuple(sorted(order)) for order in orders} == {tuple(range(8))}


def test_ranks_that_see_other_images_stop(tmp_path: Path) -> None:
    """Two ranks in two threads, each with a folder of its own host; the second folder lacks an image."""
    setups = [make_setup(_unet(strokes_folder(tmp_path / str(n), range(n)), val="none")) for n in (7, 6)]
    barrier, first, flags = threading.Barrier(2), list[Any](), [0.0, 0.0]

    def rank(number: int) -> str:
        def share(value: Any) -> Any:
            first.extend([value] if number == 0 else [])
            barrier.wait(10)
            return first[0]

        def gather(value: float) -> list[float]:
            flags[number] = value
            barrier.wait(10)
            found = list(flags)
            barrier.wait(10)
            return found

        with pytest.raises(TrainError) as caught:
            setups[number].check_alike(share, gather)
        return caught.value.message

    said = "rank 1 sees other images than rank 0, or in another order (6 and 7 images)"
    with ThreadPoolExecutor(2) as pool:
        assert set(pool.map(rank, range(2))) == {said}


def test_a_missing_mask_is_named(tmp_path: Path) -> None:
    folder = strokes_folder(tmp_path / "s", range(3))
    (folder / "001_mask.png").unlink()
    with pytest.raises(DataError, match=r"1 of 3 images in .* have no mask; the first is 001\.jpg"):
        make_setup(_unet(folder))


def test_a_mask_of_another_size_is_named(tmp_path: Path) -> None:
    folder = strokes_folder(tmp_path / "s", range(2))
    cv2.imwrite(str(folder / "001_mask.png"), np.zeros((64, 128), np.uint8))
    with pytest.raises(DataError, match=r"001_mask\.png has 128 x 64 pixels, but 001\.jpg 128 x 128"):
        run(_unet(folder))
    assert not (tmp_path / "run").exists()
    loader = make_setup(_unet(folder, val="none")).training(0, 1).loader
    with pytest.raises(
        DataError, match=r"mask of .*001\.jpg has 128 x 64 pixels, but the image has 128 x 128"
    ):
        loader.load(1)


def test_an_unreadable_image_is_named_before_training(tmp_path: Path) -> None:
    folder = strokes_folder(tmp_path / "s", range(2))
    (folder / "001.jpg").write_bytes(b"no image")
    with pytest.raises(DataError, match=r"001\.jpg cannot be read"):
        run(_unet(folder))


def test_an_unreadable_image_is_left_out_on_request(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = strokes_folder(tmp_path / "s", range(4))
    (folder / "002.jpg").write_bytes(b"no image")
    pipeline = make_setup(_unet(folder, val="none", batch=4, on_bad="skip", shuffle=False)).training(0, 1)
    (images, _), *more = list(pipeline.training(1))
    assert not more
    assert np.array_equal(images[2], images[3])  # the next one in its place: all ranks need the same steps
    assert len(next(iter(pipeline.validation()))[0]) == 3
    assert capsys.readouterr().err.count("002.jpg") == 1


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"data": "nowhere"}, DataError, "there is no data 'nowhere'"),
        ({"network": "resnet"}, UsageError, "there is no network 'resnet'; there are alexnet"),
        ({"network": "digits"}, TrainError, "the data is for segmentation, but the network digits is for"),
        ({"data": "digits"}, TrainError, "the data is for classification, but the network unet is for"),
        (
            {"network": "digits", "data": "digits", "network_options": {"classes": 3}},
            TrainError,
            "the data has 10 classes, but",
        ),
        ({"network_options": {"width": 3}}, UsageError, "the network unet does not accept the options"),
        ({"ranks": 9}, TrainError, "9 ranks are more than the 4 training images"),
    ],
)
def test_what_does_not_fit_is_said_before_training(
    change: dict[str, object], error: type[Exception], message: str, tmp_path: Path
) -> None:
    values = {"network": "unet", "data": str(strokes_folder(tmp_path / "s", range(4))), "val": "none"}
    job = TrainJob(**{**values, "out": str(tmp_path / "run"), **change})  # type: ignore[arg-type]
    with pytest.raises(error, match=message):
        make_setup(job)


def test_a_folder_without_images(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="contains no images"):
        find_source(str(tmp_path))
