"""Fine-tuning: new heads, what learns when, and both stages of a run with each strategy."""

from __future__ import annotations

import json
import re
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from float32 import tolerance
from train_runs import difference, final_weights, needs_horovod
from typer.testing import CliRunner
from variants import further, wide

from dbinfer.base.errors import DbinferError, UsageError
from dbinfer.cli.app import app
from dbinfer.images import builtin
from dbinfer.train import TrainJob, TrainReport, run
from dbinfer.train.finetuning import freeze, head_of, with_head
from dbinfer.train.strategies import dry_run

keras = pytest.importorskip("keras")

NETWORK = """
import keras
from keras import layers


def build(classes=10):
    image = x = keras.Input((28, 28, 1))
    for number in (1, 2, 3):
        x = layers.Conv2D(8 * number, 3, padding="same", use_bias=False, name=f"block{number}_conv")(x)
        x = layers.BatchNormalization(momentum=0.9, name=f"block{number}_bn")(x)
        x = layers.ReLU(name=f"block{number}_relu")(x)
        x = layers.MaxPooling2D(name=f"block{number}_pool")(x)
    x = layers.GlobalAveragePooling2D(name="pool")(x)
    return keras.Model(image, layers.Dense(classes, activation="softmax", name="scores")(x), name="small")


def manifest():
    return {"scale": [128.0]}
"""


def images_of(folder: Path, digits: str, each: int) -> str:
    """Write so many of the training images of each of these digits, and all those held out beside them."""
    for part in ("train", "heldout"):
        seen: Counter[int] = Counter()
        for path, label in builtin.write_digits(folder / part, part):
            seen[label] += 1
            if str(label) not in digits or (part == "train" and seen[label] > each):
                path.unlink()
    return str(folder / "train")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> TrainReport:
    """A small network that knows the digits 0 to 5."""
    folder = tmp_path_factory.mktemp("finetuning")
    (folder / "small.py").write_text(NETWORK)
    data = images_of(folder / "known", "012345", 140)
    out = str(folder / "trained")
    return run(TrainJob(str(folder / "small.py"), data, out=out, epochs=8, batch=32, lr=0.005, val="none"))


@pytest.fixture(scope="module")
def job(trained: TrainReport) -> TrainJob:
    """Its fine-tuning on few images of the other four digits; 40 of each."""
    folder = trained.model.parent.parent
    data = images_of(folder / "new", "6789", 40)
    return TrainJob(
        str(trained.model),
        data,
        out=str(folder / "tuned"),
        val=str(folder / "new" / "heldout"),
        fine_tune=0.5,
        head_epochs=3,
        epochs=3,
        batch=16,
        lr=0.01,
        final="last",
    )


@pytest.fixture(scope="module")
def tuned(job: TrainJob) -> TrainReport:
    return run(job)


def weights_of(path: Path) -> dict[str, Any]:
    model = keras.saving.load_model(path)  # also with what it was compiled with
    return {one.path: np.asarray(one) for one in model.weights}


def changed(first: Path, second: Path) -> set[str]:
    """Return the layers whose weights differ; those of another shape too."""
    before, after = weights_of(first), weights_of(second)
    return {name.partition("/")[0] for name in before if not np.array_equal(before[name], after[name])}


@pytest.mark.wide
def test_first_the_head_alone_then_the_last_layers_at_a_smaller_rate(
    trained: TrainReport, job: TrainJob, tuned: TrainReport
) -> None:
    """Statistics of BatchNormalization are as they were, also in the layers that learn."""
    head = job.folder / "head" / tuned.model.name
    assert changed(trained.model, head) == {"scores"}
    assert changed(head, tuned.model) == {"scores", "block3_conv", "block2_conv"}
    assert weights_of(tuned.model)["scores/kernel"].shape == (24, 4)
    assert [epoch.lr for epoch in tuned.history] == pytest.approx([0.001] * 3)
    run_of_head = json.loads((job.folder / "head" / "run.json").read_text())
    assert [epoch["lr"] for epoch in run_of_head["history"]] == [0.01] * 3
    manifest = json.loads(tuned.manifest.read_text())
    assert manifest["labels"] == ["6", "7", "8", "9"]
    assert manifest["scale"] == [128.0]  # as the manifest beside the .keras file says
    assert manifest["provenance"]["training"]["fine_tune"] == 0.5


@pytest.mark.parametrize("stopped", wide("last", "head", "between"))
def test_a_run_goes_on_in_the_stage_that_was_interrupted(
    stopped: str, job: TrainJob, tuned: TrainReport, tmp_path: Path
) -> None:
    again = replace(job, out=str(tmp_path / "run"), resume="last")
    shutil.copytree(job.folder, again.folder)
    head = again.folder / "head"
    for path in [*again.folder.glob("*.*"), again.folder / "checkpoint-3"]:
        path.unlink() if path.is_file() else shutil.rmtree(path)
    if stopped != "last":
        shutil.rmtree(again.folder / "checkpoint-2")
    if stopped == "head":
        for path in [*head.glob("*.*"), head / "checkpoint-3"]:
            path.unlink() if path.is_file() else shutil.rmtree(path)
    starts: list[int] = []
    result = run(again, lambda event: starts.append(event["first"]) if event["event"] == "start" else None)
    assert starts == {"last": [3], "head": [3, 1], "between": [1]}[stopped]
    assert difference(final_weights(again), final_weights(job)) <= tolerance(final_weights(job), steps=60)
    assert result.best_epoch == tuned.best_epoch


@pytest.mark.wide
def test_a_new_run_forgets_what_an_earlier_one_left(job: TrainJob, tmp_path: Path) -> None:
    again = replace(job, out=str(tmp_path / "run"), head_epochs=1, epochs=1)
    (again.folder / "head").mkdir(parents=True)
    (again.folder / "head" / "run.json").write_text("{}")
    (again.folder / "checkpoint-9").mkdir()
    run(again)
    assert {path.name for path in again.folder.glob("checkpoint-*")} == {"checkpoint-1"}


@pytest.mark.wide
@needs_horovod
def test_two_ranks_equal_one_process_with_twice_the_batch(job: TrainJob, tmp_path: Path) -> None:
    """In both stages: what the head has learned and what follows it.

    Only rounding lies between them: in float64 they come 2e-16 apart. A larger rate makes the weights overshoot, and
    the rounding grows with them.
    """
    plain = replace(
        job, optimizer="sgd", shuffle=False, warmup=0, head_epochs=2, epochs=2, val="none", lr=0.02
    )
    two = replace(plain, out=str(tmp_path / "two"), ranks=2, batch=80, launcher="mpi")
    one = replace(plain, out=str(tmp_path / "one"), batch=160, lr=0.04)
    run(two)
    run(one)
    for stage in ("head", ""):
        ends = [final_weights(replace(job, out=str(job.folder / stage))) for job in (two, one)]
        found, limit = difference(*ends), tolerance(ends[1], steps=4, terms=160)
        print(f"{stage} weights of two ranks and of one process: {found:.1e} apart, of at most {limit:.1e}")
        assert found <= limit


@pytest.mark.parametrize("strategy", [*wide("mirrored"), *further("central", "downpour", "split")])
def test_the_other_strategies_fine_tune_too(
    strategy: str, job: TrainJob, trained: TrainReport, tmp_path: Path
) -> None:
    if strategy == "split":
        pytest.importorskip("jax")
    more: dict[str, Any] = {"layout": "all-by-outputs"} if strategy == "split" else {}
    job = replace(job, out=str(tmp_path / "run"), strategy=strategy, ranks=2, optimizer="adagrad", **more)
    result = run(job)
    head = job.folder / "head" / result.model.name
    assert changed(trained.model, head) == {"scores"}
    assert changed(head, result.model) == {"scores", "block3_conv", "block2_conv"}
    cells = result.run["confusion"]
    right = sum(cell["images"] for cell in cells if cell["label"] == cell["answer"])
    assert sum(cell["images"] for cell in cells) == result.run["images"]["validation"]
    # a score that is nearly another one's may fall on the other side
    expected = result.metrics["val_accuracy"] * result.run["images"]["validation"]
    assert right == pytest.approx(expected, abs=1)


@pytest.mark.wide
def test_a_dry_run_shows_every_step(job: TrainJob, tmp_path: Path) -> None:
    words = ["train", job.network, "--data", job.data, "--out", str(tmp_path / "run"), "--val", job.val]
    result = CliRunner().invoke(app, [*words, "--fine-tune", "0.5", "--lr", "0.01", "--dry-run"])
    assert result.exit_code == 0, result.output
    lines = result.output.splitlines()[-7:]
    assert lines == [
        "small: classification, 28x28 GRAY, (pixel - 0) / 128; 4 outputs, softmax; "
        "loss sparse_categorical_crossentropy; accuracy decides; adam with lr 0.01",
        "head: new, 4 outputs in place of scores",
        "1. the head alone: 5 epochs with lr 0.01; 100 of 4,972 weights learn",
        "2. the last 3 layers, from block2_conv on, BatchNormalization as in inference: 10 epochs with lr 0.001; "
        "4,708 of 4,972 weights learn",
        "160 images to train on, 163 to validate; 4 labels",
        f"into {tmp_path / 'run'}",
        "--dry-run: nothing was trained",
    ]
    assert not (tmp_path / "run").exists()


def test_a_dry_run_of_any_network() -> None:
    assert dry_run(TrainJob("digits", "digits", epochs=3)) == [
        "1,438 images to train on, 359 to validate; 10 labels",
        "3 epochs with lr 0.001",
        "into runs/digits",
    ]


def model_of(*layers: Any) -> Any:
    model = keras.Sequential([keras.Input((8, 8, 3)), *layers])
    return keras.Model(model.inputs[0], model.outputs[0])


def test_new_heads(subtests: pytest.Subtests) -> None:
    kinds = keras.layers
    point = kinds.Conv2D(3, 1, name="old")
    body = [kinds.Conv2D(4, 3, name="conv"), kinds.BatchNormalization(name="norm")]
    flat = [*body, kinds.GlobalAveragePooling2D()]
    for name, layers, labels, where in [
        ("dense", [*flat, kinds.Dense(3, name="old"), kinds.Softmax()], 5, "in place of old"),
        ("kept", [*flat, kinds.Dense(5, name="old")], 5, ""),
        ("two", [*flat, kinds.Dense(1, name="old", activation="sigmoid")], 2, ""),
        ("convolution", [*flat, kinds.Reshape((1, 1, 4)), point, kinds.Flatten()], 5, "in place of old"),
        ("features", flat, 5, "on the features"),
        ("as many features", flat, 4, "on the features"),
        ("maps", body, 5, "on the features"),
    ]:  # fmt: skip
        with subtests.test(name=name):
            model, found = with_head(model_of(*layers), labels)
            assert found == where
            assert model.output_shape == (None, 1 if name == "two" else labels)
            assert [layer.name for layer in freeze(model, 0.0)] == [head_of(model).name]
            assert [layer.name for layer in freeze(model, 0.1)] == ["conv", head_of(model).name]
            assert not model.get_layer("norm").trainable


@pytest.mark.wide
def test_networks_of_keras_applications(tmp_path: Path) -> None:
    """A file of weights with a head and one without, and a whole network."""
    options = {"input_shape": [32, 32, 3], "alpha": 0.35}
    model = keras.applications.MobileNetV2(**options, weights=None, include_top=False)
    model.save_weights(tmp_path / "some.weights.h5")
    more = {**options, "weights": str(tmp_path / "some.weights.h5")}
    lines = dry_run(TrainJob("keras:MobileNetV2", "digits", fine_tune=0.3, network_options=more))
    assert lines[0].startswith("MobileNetV2: classification, 32x32 RGB, (pixel - 127.5) / 127.5; 10 outputs")
    assert lines[1] == "head: new, 10 outputs on the features"
    assert "from block_12_expand on, BatchNormalization as in inference" in lines[3]


@pytest.mark.wide
@pytest.mark.parametrize(
    ("network", "options", "message", "cure"),
    [
        ("keras:MobileNetV2", {"weights": None}, "begins without trained weights", "Leave out --fine-tune"),
        ("digits", {}, "the network digits of the zoo has no trained weights", r"runs/digits/digits\.keras"),
        *wide(
            ("keras:MobileNetV2", {"weights": "no.h5"}, "Received `weights=no.h5`", "--set weights=none"),
            ("keras:MobileNetV2", {"include_top": True, "classes": 7, "weights": "imagenet"}, "1000", "none"),
        ),
    ],
)
def test_weights_that_are_not_there(network: str, options: Any, message: str, cure: str) -> None:
    with pytest.raises(DbinferError, match=message) as found:
        dry_run(TrainJob(network, "digits", fine_tune=0.3, network_options=options))
    assert "\n" not in found.value.message
    assert re.search(cure, found.value.hint)


@pytest.mark.wide
def test_imagenet_where_nothing_can_be_downloaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A proxy that nobody answers stands for a host without the internet."""
    monkeypatch.setenv("https_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("KERAS_HOME", str(tmp_path))
    options = {"input_shape": [96, 96, 3]}
    with pytest.raises(
        UsageError, match=r"the weights of keras:MobileNetV2 cannot be downloaded: https://"
    ) as found:
        dry_run(TrainJob("keras:MobileNetV2", "digits", fine_tune=0.3, network_options=options))
    assert "Copy the folder ~/.keras/models" in found.value.hint


def test_options_out_of_range(subtests: pytest.Subtests) -> None:
    for more, message in [
        ({"fine_tune": 1.5}, "fine_tune is 1.5, but must be at least 0 and at most 1"),
        ({"fine_tune_rate": 0}, "fine_tune_rate is 0, but must be above 0 and at most 1"),
        ({"head_epochs": -1}, "head_epochs is -1, but must be at least 0"),
    ]:
        with subtests.test(more=more), pytest.raises(UsageError, match=message):
            TrainJob("net.keras", "digits", **more)  # type: ignore[arg-type]
