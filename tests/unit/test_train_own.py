"""Networks of the user's own: what follows from them, what does not fit in one sentence, and how ranks get them."""

from __future__ import annotations

import re
from base64 import b64encode
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import own_networks
import pytest
from train_runs import difference, digits_folder, final_weights, launched, needs_horovod
from variants import at_length

import dbinfer
from dbinfer.base.errors import DataError, DbinferError, TrainError, UsageError
from dbinfer.train import TrainJob, run
from dbinfer.train.datasets import Digits
from dbinfer.train.described import describe_apart, facts_of, settled, told
from dbinfer.train.options import own_name, read_settings
from dbinfer.train.own import Own, everywhere
from dbinfer_udf.manifest import Manifest

keras = pytest.importorskip("keras")


def described(
    folder: Path, text: str, name: str = "", task: str = "classification", labels: int = 10, **options: Any
) -> Own:
    """Return a network of this text with what follows from it, as a process that trains has it."""
    path = folder / "net.py"
    path.write_text(text)
    return looked_at(TrainJob(f"{path}{name}", "digits", network_options=options), task, labels)


def looked_at(job: TrainJob, task: str = "classification", labels: int = 10) -> Own:
    return Own.of(settled(job, facts_of(Own.of(job), task, labels)))


def one_loss(network: Own, truths: Any, scores: Any) -> Any:
    network.build(**network.options)
    found = network.make_loss()(keras.ops.convert_to_tensor(truths), keras.ops.convert_to_tensor(scores))
    return np.asarray(found)


def test_names_of_networks(subtests: pytest.Subtests) -> None:
    for network, name in [
        ("nets/my_network.py", "my_network"),
        ("nets/my_network.py:make_model", "my_network"),
        ("best.v2.keras", "best"),
        ("my net-2.py", "my_net_2"),
        ("runs/a/net.start.keras", "net"),
        ("keras:MobileNetV2", "MobileNetV2"),
        ("shop.networks:build", "networks"),
        ("digits", ""),
        ("digits.h5", ""),
    ]:
        with subtests.test(network=network):
            assert own_name(network) == name


def test_values_are_json_or_python() -> None:
    texts = ["a=none", "b=True", "c=[1,2]", "d=(3, 4)", "e=imagenet", "f=0.5", "g=None"]
    values = {"a": None, "b": True, "c": [1, 2], "d": (3, 4), "e": "imagenet", "f": 0.5, "g": None}
    assert read_settings("set", texts) == values


def test_a_script_gives_its_network_with_as_many_classes_as_labels(tmp_path: Path) -> None:
    """What loads data and trains does not run; what the network was compiled with counts."""
    network = described(tmp_path, own_networks.SCRIPT, labels=7, filters=3)
    model = network.build(**network.options)
    assert model.output_shape == (None, 7)
    assert model.layers[1].filters == 3
    assert network.options == {"num_classes": 7, "filters": 3}
    assert (network.loss, network.metrics) == ("categorical_crossentropy", ("accuracy",))
    manifest = network.manifest()
    assert (manifest.height, manifest.color, manifest.scale, manifest.activation) == (
        28,
        "GRAY",
        (255.0,),
        "none",
    )
    scores = np.full((2, 7), 0.1, np.float32)
    scores[:, 3] = 0.4
    assert one_loss(network, [3, 1], scores) == pytest.approx(-np.log([0.4, 0.1]), rel=1e-5)


def test_a_compiled_function_with_one_output_for_two_classes(tmp_path: Path) -> None:
    network = described(tmp_path, own_networks.FUNCTION, ":make_model", labels=2, input_shape=[16, 16, 3])
    assert (network.loss, network.facts["optimizer"]["class_name"], network.facts["lr"]) == (
        "binary_crossentropy",
        "AdamW",
        pytest.approx(0.01),
    )
    manifest = network.manifest()
    assert (manifest.scale, manifest.activation) == ((1.0,), "sigmoid")
    assert one_loss(network, [1, 0], [[0.0], [0.0]]) == pytest.approx([np.log(2)] * 2)
    optimizer = network.make_optimizer(0.5)
    assert type(optimizer).__name__ == "AdamW"
    assert (float(optimizer.learning_rate), optimizer.weight_decay) == (0.5, 0.02)


def test_what_a_file_says_beside_build_wins(tmp_path: Path) -> None:
    network = described(tmp_path, own_networks.MASKS, task="segmentation", labels=0, size=8)
    assert (network.loss, network.metrics) == ("loss", ("pixels",))
    manifest = network.manifest()
    assert (manifest.height, manifest.mean, manifest.threshold, manifest.activation) == (
        8,
        (127.5,),
        0.4,
        "sigmoid",
    )
    assert one_loss(network, np.ones((1, 8, 8, 1), "f"), np.zeros((1, 8, 8, 1), "f")) == pytest.approx([0.25])


def test_a_network_of_keras_applications_gets_pixels_as_it_wants(tmp_path: Path) -> None:
    options = {"weights": None, "input_shape": [32, 32, 3], "alpha": 0.35}
    network = looked_at(TrainJob("keras.applications:MobileNetV2", "digits", network_options=options))
    assert network.options["classes"] == 10
    assert (network.manifest().mean, network.manifest().scale) == ((127.5,), (127.5,))
    job = settled(TrainJob("keras.applications:MobileNetV2", "digits"), network.facts)
    assert told(job) == (
        "MobileNetV2: classification, 32x32 RGB, (pixel - 127.5) / 127.5; 10 outputs, softmax; "
        "loss sparse_categorical_crossentropy; accuracy decides; adam with lr 0.001"
    )


def saved(folder: Path, *layers: Any, **compiled: Any) -> str:
    model = keras.Sequential([keras.Input((8, 8, 1)), *layers], name="kept")
    if compiled:
        model.compile(**compiled)
    model.save(folder / "kept.keras")
    return str(folder / "kept.keras")


def test_a_keras_file_goes_on_with_its_weights_loss_and_optimizer(tmp_path: Path) -> None:
    rate = keras.optimizers.schedules.ExponentialDecay(0.25, 10, 0.5)
    layers = [keras.layers.Flatten(), keras.layers.Dense(3, activation="softmax")]
    path = saved(tmp_path, *layers, loss="mse", optimizer=keras.optimizers.SGD(rate, momentum=0.5))
    network = looked_at(TrainJob(path, "digits"), labels=3)
    weights = keras.saving.load_model(path).get_weights()
    assert difference(network.build().get_weights(), weights) == 0
    assert (network.loss, network.facts["lr"], network.make_optimizer(0.1).momentum) == ("mse", 0.25, 0.5)
    assert one_loss(network, [2], [[0.0, 0.0, 1.0]]) == pytest.approx([0])
    job = settled(TrainJob(path, "digits"), network.facts)
    assert (job.rate, job.optimizer) == (0.25, None)
    job = settled(TrainJob(path, "digits", optimizer="adam", lr=0.5), network.facts)
    assert (job.rate, job.optimizer) == (0.5, "adam")


HEAD = "import keras\nfrom keras import layers\n\n"
PLAIN = "    image = keras.Input((8, 8, 1))\n    x = layers.Flatten()(image)\n"


def test_what_does_not_fit_is_one_sentence_with_the_cure(tmp_path: Path, subtests: pytest.Subtests) -> None:
    dense = f"{HEAD}def build(units=3):\n{PLAIN}    return keras.Model(image, layers.Dense(units)(x))\n"
    pixels = {"task": "segmentation", "labels": 0}
    for text, more, message, cure in [
        ("x = 1\n", {}, r"has no function build\(\.\.\.\) that returns a Keras model, and no 'model'", "def build"),
        ("def make(): pass\n", {}, r"has no function build", r"Name the function that does: .*net\.py:make\."),
        (dense, {"name": ":make"}, r"has no 'make' that returns a Keras model", r"net\.py:build"),
        (dense, {"width": 3}, r"has no option 'width'", "Options for --set: units"),
        (dense, {}, r"the output of .* has the shape \(3\), but the data has 10 labels", r"Dense\(10, activation"),
        (dense, {**pixels}, r"has the shape \(3\), but masks need one score for each pixel .*\(8, 8, 1\)", "Conv2D"),
        ("def build():\n    return 3\n", {}, "gives a int, but must give a Keras model", ""),
        ("def build():\n    return 1 / 0\n", {}, r"cannot be built with {} in line 2: ZeroDivisionError: ", ""),
        ("import nowhere_at_all\ndef build():\n    nowhere_at_all\n", {}, r"cannot be run in line 1: Module", ""),
        ("def build(:\n", {}, r"line 1 of .*net\.py is no Python", ""),
        (f"{HEAD}def build():\n{PLAIN}    other = keras.Input((2,), name='age')\n"
         "    return keras.Model([image, other], layers.Dense(10)(layers.Concatenate()([x, other])))\n",
         {}, r"has 2 inputs \(.*, age\), but training takes networks of one", "one input"),
        (f"{HEAD}def build():\n{PLAIN}    return keras.Model(image, [layers.Dense(10)(x), x])\n",
         {}, "has 2 outputs", "one output"),
        (f"{HEAD}def build():\n    return keras.Sequential([layers.Dense(10)])\n",
         {}, "a model that does not know its input", "keras.Input"),
        (f"{HEAD}def build():\n    return keras.Sequential([keras.Input((784,)), layers.Dense(10)])\n",
         {}, r"the input of .* has the shape \(784\), but an image is", ""),
        (f"{HEAD}def build():\n    return keras.Sequential([keras.Input((None, None, 3)), "
         "layers.GlobalAveragePooling2D(), layers.Dense(10)])\n",
         {}, r"has the open shape \(any, any, 3\), but training needs a size", "keras.Input"),
        (f"{HEAD}def build():\n    return keras.Sequential([keras.Input((8, 8, 1)), layers.Flatten(), "
         "layers.Dense(10, trainable=False)])\n", {}, "has no weights to train", "trainable = True"),
        (f"{dense}def manifest():\n    return {{'colour': 'RGB'}}\n",
         {"units": 10}, "the manifest of .* cannot be used: unknown key 'colour'", ""),
        (f"{dense}def loss(truths, scores):\n    return truths @ scores @ scores\n",
         {"units": 10}, "loss or metrics of .* cannot be computed: ", "class numbers"),
    ]:  # fmt: skip
        with subtests.test(text=text, more=more):
            with pytest.raises(DbinferError, match=message) as found:
                described(tmp_path, text, **more)
            assert "\n" not in found.value.message
            assert re.search(cure, found.value.hint)


def test_a_lambda_in_a_keras_file_is_refused(tmp_path: Path) -> None:
    path = saved(
        tmp_path, keras.layers.Lambda(lambda x: x * 2), keras.layers.Flatten(), keras.layers.Dense(10)
    )
    with pytest.raises(TrainError, match=r"kept\.keras uses a custom layer .*Lambda") as found:
        looked_at(TrainJob(path, "digits"))
    assert "it is your code, and it runs" in found.value.hint


def test_networks_that_are_not_there(tmp_path: Path, subtests: pytest.Subtests) -> None:
    for network, message in [
        (str(tmp_path / "net.py"), r"the network .*net\.py cannot be read: No such file"),
        (str(tmp_path / "net.keras"), r"the network .*net\.keras cannot be read: No such file"),
        ("keras.nowhere:Net", r"the module keras\.nowhere cannot be imported: ModuleNotFoundError: "),
        ("keras.applications:Net", r"the module keras\.applications has no function 'Net'"),
    ]:
        with subtests.test(network=network), pytest.raises(UsageError, match=message):
            assert looked_at(TrainJob(network, "digits"))
    with pytest.raises(
        UsageError, match=r"the search takes networks of the zoo, but the network is 'net\.py'"
    ):
        dbinfer.tune("net.py", "digits", ["lr=0.1,0.2"], dsn="dbname=unused")
    with pytest.raises(
        UsageError, match="the network is a list, but must be a name, a file or a Keras model"
    ):
        dbinfer.train([], "digits")


def test_weights_that_do_not_fit_the_labels_have_a_cure() -> None:
    with pytest.raises(
        UsageError, match=r"MobileNetV2 cannot be built with {'classes': 10}: ValueError: "
    ) as found:
        looked_at(TrainJob("keras.applications:MobileNetV2", "digits"))
    assert "--set weights=none" in found.value.hint


def test_images_of_one_label_teach_nothing(tmp_path: Path) -> None:
    digits_folder(tmp_path / "images", 30)
    for folder in sorted((tmp_path / "images").iterdir())[1:]:
        for file in folder.iterdir():
            file.unlink()
    with pytest.raises(DataError, match="all images have the label '0', so there is nothing to tell apart"):
        run(TrainJob("digits", str(tmp_path / "images"), out=str(tmp_path / "run")))


def test_strategies_that_cannot(tmp_path: Path) -> None:
    network = described(tmp_path, own_networks.FUNCTION, ":make_model", input_shape=[16, 16, 3])
    job = TrainJob(network.source, "digits", strategy="downpour")
    with pytest.raises(
        UsageError, match="the strategy downpour applies the updates itself, and not with AdamW"
    ):
        settled(job, network.facts)
    assert settled(replace(job, optimizer="adagrad"), network.facts).optimizer == "adagrad"
    whole = {**network.facts, "each": False}
    with pytest.raises(
        UsageError, match="gives one number for a whole batch, but the strategy mirrored needs one"
    ):
        settled(replace(job, strategy="mirrored"), whole)
    assert settled(replace(job, strategy="horovod"), whole).described == whole


def test_other_hosts_get_the_file_from_the_first_one(tmp_path: Path) -> None:
    network = described(tmp_path, own_networks.BRANCHES)
    job = TrainJob(network.source, "digits", hosts="a:1,b:1", ranks=2, described=network.facts)
    Path(network.source).unlink()
    there = Own.of(job)
    assert there.content == b""
    told = [b64encode(network.content).decode(), ""]
    found = everywhere(there, job, lambda value: told)
    assert found.build(**found.options).output_shape == (None, 10)


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """Two ranks, each with half of the 1438 images in one batch."""
    folder = tmp_path_factory.mktemp("branches")
    (folder / "net.py").write_text(own_networks.BRANCHES)
    return TrainJob(
        str(folder / "net.py"),
        "digits",
        out=str(folder / "two"),
        val="none",
        epochs=4,
        batch=719,
        optimizer="sgd",
        lr=0.1,
        warmup=0,
        shuffle=False,
        ranks=2,
        launcher="mpi",
    )


@needs_horovod
@at_length
def test_two_ranks_equal_one_process_with_twice_the_batch(branches: TrainJob) -> None:
    run(branches)
    alone = replace(branches, out=f"{branches.out}-alone", ranks=1, batch=1438, lr=0.2)
    result = run(alone)
    found = difference(final_weights(branches), final_weights(alone))
    print(f"weights of two ranks and of one process: {found:.1e} apart")
    assert found <= 1e-5
    assert result.history[-1].values["loss"] < result.history[0].values["loss"]
    assert Manifest.from_json(result.manifest.read_text()).provenance["training"]["optimizer"] == "sgd"
    assert result.model.name == "net.keras"


@needs_horovod
@at_length
def test_a_rank_without_the_file_trains_all_the_same(branches: TrainJob) -> None:
    job = describe_apart(
        replace(branches, hosts="localhost:1,127.0.0.1:1", out=f"{branches.out}-fileless"), Digits()
    )
    launched(job, "fileless")
    launched(replace(job, hosts="", out=f"{branches.out}-with"))
    assert difference(final_weights(job), final_weights(replace(job, out=f"{branches.out}-with"))) <= 1e-6


@pytest.mark.wide
def test_a_model_of_a_notebook(tmp_path: Path) -> None:
    images = digits_folder(tmp_path / "images", 60)
    model = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.Flatten(), keras.layers.Dense(10)], name="my net"
    )
    before = model.get_weights()
    options = dbinfer.TrainOptions(out=str(tmp_path / "run"), epochs=1, batch=16)
    notes: list[str] = []
    report = dbinfer.train(model, str(images), options, progress=lambda done: notes.append(done.note))
    assert report.model == tmp_path / "run" / "my_net.keras"
    assert "my_net: classification, 8x8 GRAY, (pixel - 0) / 255; 10 outputs, raw scores" in " ".join(notes)
    assert difference(model.get_weights(), before) == 0
    assert difference(keras.saving.load_model(report.model).get_weights(), before) > 0


def test_a_scale_counts_how_far_off_a_step_is(tmp_path: Path) -> None:
    network = described(tmp_path, own_networks.BRANCHES, task="ordinal", labels=3)
    assert (network.loss, network.metrics) == ("sparse_categorical_crossentropy", ("mean_absolute_error",))
    assert network.manifest().activation == "softmax"
    scores = np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [0.2, 0.5, 0.3]], np.float32)
    (steps_off,) = network.make_metrics()
    assert np.asarray(steps_off(keras.ops.array([0, 0, 1]), keras.ops.array(scores))).tolist() == [1, 2, 0]
    loss = "\n\nloss = 'categorical_crossentropy'\n"
    columns = described(tmp_path, own_networks.BRANCHES + loss, task="ordinal", labels=3)
    assert one_loss(columns, [2, 0], np.log([[0.2, 0.3, 0.5]] * 2)) == pytest.approx(-np.log([0.5, 0.2]))
