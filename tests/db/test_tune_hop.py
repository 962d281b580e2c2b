"""`dbinfer tune --hop`: workers keep their shards and the weights travel, as if one process had all shards."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from digit_tables import digit_table
from float32 import tolerance
from searching import ask, kill_a_worker

pytest.importorskip("optuna")

from variants import at_length

from dbinfer.base.errors import DataError, TrainError
from dbinfer.train import TrainOptions
from dbinfer.train.options import TrainJob
from dbinfer.tune import Trial, TuneOptions, TuneReport, tune

QUERY = "SELECT img, label, id FROM hops"
SEARCH = ["lr=1e-3..1e-2:log", "batch=16,32"]
TRAIN = TrainOptions(epochs=2, val_fraction=0.2, threads=1, schedule="cosine")


@pytest.fixture(scope="module")
def images(dsn: str) -> str:
    return digit_table(dsn, "hops", 201)


def options(out: Path, study: str, **more: Any) -> TuneOptions:
    given = {"train": TRAIN, "trials": 2, "workers": 2, "pruner": "none", "hop": True}
    return TuneOptions(**{**given, "study": study, "out": str(out), **more})  # type: ignore[arg-type]


def in_one_process(dsn: str, trial: Trial, out: Path) -> list[list[Any]]:
    """Train a trial's values in this process, over the shards in the order of its hops; return each epoch's weights."""
    from dbinfer.train.device import import_tensorflow

    import_tensorflow()
    import keras

    from dbinfer.train.device import limit_threads

    limit_threads(1)  # as the workers: threads add up in another order
    from dbinfer.train.course import Schedule
    from dbinfer.train.loader import Seed
    from dbinfer.train.model import Meter, build, compile_model, distributed, one_epoch, reseed
    from dbinfer.train.ranks import Alone
    from dbinfer.train.setup import make_setup

    job = TrainJob.of("digits", QUERY, TRAIN, dsn)
    job = TrainJob(**{**job.to_dict(), "dsn": dsn, "out": str(out), **trial.values})
    setup = make_setup(job)
    pipelines = [setup.visited(number, 2)[0] for number in range(2)]
    setup.close()
    keras.utils.set_random_seed(job.seed)
    model = distributed(build(setup.network, setup.options)[0], Alone())
    compile_model(model, setup.network, job)
    done, each = 0, sum(one.steps for one in pipelines)
    found = []
    for epoch, order in enumerate(trial.orders, start=1):
        for number in order:
            shard = pipelines[number]
            reseed(model, Seed(job.seed, number, epoch))
            shift = done - (epoch - 1) * shard.steps
            schedule = Schedule(job.lr, 1, 0, each * job.epochs, job.schedule, shift)
            one_epoch(model, shard, Meter(model, schedule, lambda event: None, epoch, shard.steps), Alone())
            done += shard.steps
        found.append([np.array(weight) for weight in model.weights])
    return found


@pytest.mark.wide
def test_hopping_weights_equal_those_of_one_process_though_a_worker_is_killed(
    images: str, tmp_path: Path
) -> None:
    """kill -9 in mid-search: a new worker takes the shard; no trial is lost or stuck, and the weights are the same."""
    import keras

    killer = threading.Thread(target=_kill_one, args=(images, "hops"), daemon=True)
    killer.start()
    report: TuneReport = tune("digits", QUERY, SEARCH, options(tmp_path, "hops"), images)
    killer.join(60)
    assert not killer.is_alive()
    assert [trial.state for trial in report.trials] == ["complete"] * 2
    for trial in report.trials:
        assert [sorted(order) for order in trial.orders] == [[0, 1], [0, 1]]
        folder = tmp_path / f"trial-{trial.number}"
        chosen = max(trial.scores, key=lambda epoch: (trial.scores[epoch], -epoch))
        expected = in_one_process(images, trial, tmp_path / "alone")[chosen - 1]
        weights = keras.models.load_model(folder / "digits.keras").weights
        apart = max(np.abs(np.asarray(a) - b).max() for a, b in zip(weights, expected, strict=True))
        print(f"trial {trial.number}: hopping and one process are {apart:.1e} apart")
        # two epochs of 161 images by 16; the gradient of the first bias is a sum over all pixels of a batch
        assert apart <= tolerance([np.asarray(a) for a in weights], 2 * 11, 32 * 28 * 28)
        assert not list(folder.glob("**/checkpoint-*"))
    rows = ask(images, "SELECT state, scores FROM dbinfer.trials WHERE study = 'hops' ORDER BY trial")
    assert [(state, len(scores)) for state, scores in rows] == [("complete", 2)] * 2
    assert '"orders"' in (tmp_path / "manifest.json").read_text()
    with pytest.raises(DataError, match="was begun with shards 2, but this one has 3"):
        tune("digits", QUERY, SEARCH, options(tmp_path, "hops", workers=3, resume=True), images)


@at_length
def test_a_study_that_hops_goes_on(images: str, tmp_path: Path) -> None:
    first = tune("digits", QUERY, SEARCH, options(tmp_path, "goes-on", pruner="hyperband"), images)
    more = tune(
        "digits",
        QUERY,
        SEARCH,
        options(tmp_path, "goes-on", trials=4, pruner="hyperband", resume=True),
        images,
    )
    assert more.trials[:2] == first.trials
    assert {trial.state for trial in more.trials} <= {"complete", "pruned"}
    assert len(more.trials) == 4


def _kill_one(dsn: str, study: str) -> None:
    """Kill a worker after the first hops."""
    text = (
        "SELECT 1 FROM dbinfer_private.tuning_journal "
        f"WHERE study = '{study}' AND entry->>'user_attr' LIKE '%hop-1\"%'"
    )
    kill_a_worker(dsn, text)


def test_more_workers_than_images(images: str, tmp_path: Path) -> None:
    few = f"{QUERY} WHERE id < 3"
    with pytest.raises(TrainError, match="5 workers are more than the 3 training images"):
        tune("digits", few, SEARCH, options(tmp_path, "few", workers=5, train=TrainOptions(val=few)), images)
