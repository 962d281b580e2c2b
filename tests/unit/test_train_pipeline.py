"""`--strategy pipeline`: several stages learn what one process learns, also after a resume and in a mesh."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from float32 import tolerance
from train_runs import SMALL_UNET, difference, final_weights, launched, needs_horovod, strokes_folder
from variants import at_length, further, wide

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train import TrainJob, run

pytestmark = needs_horovod
LIMIT = 1e-6
IMAGES, BATCH, EPOCHS = 10, 4, 2  # the last batch of an epoch has 2 images, for four parts
TERMS = BATCH * 16 * 16  # gradients are sums over all pixels of a batch
PLAIN = {**SMALL_UNET, "batch_norm": False}


@pytest.fixture(scope="module")
def alone(tmp_path_factory: pytest.TempPathFactory) -> TrainJob:
    """A U-Net, of which tensors go past the stage in the middle; trained in one process."""
    folder = tmp_path_factory.mktemp("pipeline")
    given: dict[str, Any] = {"optimizer": "sgd", "lr": 0.05, "warmup": 0, "final": "last", "device": "cpu"}
    job = TrainJob(
        "unet",
        str(strokes_folder(folder / "images", range(IMAGES))),
        out=str(folder / "alone"),
        val=str(strokes_folder(folder / "val", range(20, 23))),
        network_options=PLAIN,
        epochs=EPOCHS,
        batch=BATCH,
        **given,
    )
    run(job)
    return job


def staged(alone: TrainJob, out: Path, **more: Any) -> TrainJob:
    return replace(alone, strategy="pipeline", out=str(out), **more)


def test_two_stages_learn_what_one_process_learns(alone: TrainJob, tmp_path: Path) -> None:
    """In uneven parts, and with batches that have fewer images than parts."""
    told: list[str] = []

    def listen(event: dict[str, Any]) -> None:
        told.extend([event["text"]] if event["event"] == "network" else [])

    job = staged(alone, tmp_path / "two", ranks=2, micro_batches=3)
    result = run(job, listen)
    trained = final_weights(alone)
    apart = difference(final_weights(job), trained)
    print(f"pipeline of 2 against one process: weights {apart:.1e} apart")
    assert apart <= min(LIMIT, tolerance(trained, 3 * EPOCHS, TERMS))
    one = run(replace(alone, resume="last"))
    assert result.metrics == pytest.approx(one.metrics, abs=tolerance(1.0, 3 * EPOCHS, TERMS))

    stages = result.run["stages"]
    assert (stages[0]["first"], stages[-1]["last"]) == ("block1_conv1", "mask")
    assert sum(stage["parameters"] for stage in stages) == sum(array.size for array in trained)
    assert sum(stage["share"] for stage in stages) == pytest.approx(1, abs=0.002)
    assert (result.run["mesh"], result.run["micro_batches"], result.run["bubble"]) == ([1, 2], 3, 0.25)
    assert 0 <= result.run["waiting"] < 1
    assert len(told) == 2
    assert told[0].startswith("stages: block1_conv1 to ")
    assert "of which the stages waited" in told[1]


@at_length
def test_a_resume_repeats_the_run(alone: TrainJob, tmp_path: Path) -> None:
    """At the cuts of the run, whatever the times are now; with an optimizer that remembers."""
    whole = staged(alone, tmp_path / "whole", ranks=2, cuts="block1_relu1", optimizer="adam")
    run(whole)
    half = replace(whole, out=str(tmp_path / "half"), epochs=1)
    run(half)
    again = replace(half, epochs=EPOCHS, resume="last", cuts="")
    assert run(again).run["config"]["cuts"] == "block1_relu1"
    assert difference(final_weights(again), final_weights(whole)) == 0
    with pytest.raises(
        UsageError, match="cuts is 'block1_conv1', but the run that goes on is cut at 'block1_relu1'"
    ):
        run(replace(again, cuts="block1_conv1", epochs=EPOCHS + 1))


@pytest.mark.parametrize("ranks", [*further(1), *wide(3)])
def test_other_numbers_of_stages(alone: TrainJob, tmp_path: Path, ranks: int) -> None:
    """One stage computes a batch in parts; of three the middle one passes on what the last one needs of the first."""
    job = staged(alone, tmp_path / "run", ranks=ranks)
    assert run(job).run["config"]["cuts"].count(",") == max(0, ranks - 2)
    trained = final_weights(alone)
    assert difference(final_weights(job), trained) <= min(LIMIT, tolerance(trained, 3 * EPOCHS, TERMS))


@pytest.mark.parametrize("batch_norm", [*further(False), *wide(True)])
def test_two_groups_of_two_stages_equal_two_ranks(alone: TrainJob, tmp_path: Path, batch_norm: bool) -> None:
    """With batch normalisation too, where a batch is one part: its statistics are those of the part."""
    given: dict[str, Any] = {"batch": 2, "network_options": {**SMALL_UNET, "batch_norm": batch_norm}}
    ranks = replace(alone, out=str(tmp_path / "ranks"), ranks=2, **given)
    launched(ranks)
    more = {"ranks": 4, "mesh": "2x2", "micro_batches": 1 if batch_norm else 2}
    groups = staged(alone, tmp_path / "groups", **more, **given)
    run(groups)
    trained = final_weights(ranks)
    assert difference(final_weights(groups), trained) <= min(LIMIT, tolerance(trained, 3 * EPOCHS, TERMS))


@pytest.mark.wide
def test_a_lost_stage_ends_the_others_with_one_sentence(alone: TrainJob, tmp_path: Path) -> None:
    with pytest.raises(TrainError, match="rank 1 stopped with signal 9, and the other ranks were ended"):
        launched(staged(alone, tmp_path / "lost", ranks=2, epochs=5), "lost_stage")


def test_wrong_cuts_and_parts_are_one_sentence(alone: TrainJob, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="micro_batches is 5, but a batch has 4 images"):
        run(staged(alone, tmp_path, ranks=2, micro_batches=5))
    with pytest.raises(UsageError, match="the mesh 2x2 has 4 processes, but ranks is 2"):
        run(staged(alone, tmp_path, ranks=2, mesh="2x2"))


@pytest.mark.wide
def test_what_a_pipeline_cannot_train_is_one_sentence(alone: TrainJob, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="cuts names 'conv', but unet cannot be cut there"):
        run(staged(alone, tmp_path, ranks=2, cuts="conv"))
    file = tmp_path / "net.py"
    file.write_text(CLIPPED)
    given: dict[str, Any] = {"network_options": {}, "optimizer": None, "lr": None, "val": "none"}
    with pytest.raises(UsageError, match="global_clipnorm clips the gradients of all layers together"):
        run(staged(alone, tmp_path / "clipped", ranks=2, network=str(file), **given))


CLIPPED = """
import keras
from keras import layers

def build():
    image = keras.Input((16, 16, 3))
    model = keras.Model(image, layers.Conv2D(1, 1, activation="sigmoid")(layers.Conv2D(2, 3, padding="same")(image)))
    model.compile(keras.optimizers.SGD(0.1, global_clipnorm=1.0), "binary_crossentropy")
    return model
"""


@at_length
def test_more_parts_leave_less_waiting(alone: TrainJob, tmp_path: Path) -> None:
    """Printed, not asserted: how much time is a matter of the machine."""
    large = {"network_options": {"size": 128, "depth": 3, "base_width": 8}, "batch": 16, "val": "none"}
    for parts in (1, 2, 4, 8):
        job = staged(alone, tmp_path / str(parts), ranks=2, micro_batches=parts, data="strokes:128", **large)
        found = run(job).run
        print(
            f"{parts} parts: a step {found['step_ms']} ms, waiting {found['waiting']}, bubble {found['bubble']}"
        )
        assert found["micro_batches"] == parts
