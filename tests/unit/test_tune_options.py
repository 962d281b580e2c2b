"""The search space and the options of a search, and what is wrong with them."""

from __future__ import annotations

import pytest

pytest.importorskip("optuna")

from dbinfer.base.errors import DataError, UsageError
from dbinfer.train import TrainJob, TrainOptions
from dbinfer.tune import TuneOptions, tune
from dbinfer.tune.options import Dimension, TuneJob, read_search, with_values


def test_ranges_and_choices_are_read() -> None:
    found = read_search(
        ["lr=1e-4..1e-1:log", "batch=32,64", "dropout=0.1..0.5", "augment=true,false"], "digits"
    )
    assert found == (
        Dimension("lr", 1e-4, 1e-1, log=True),
        Dimension("batch", choices=(32, 64)),
        Dimension("dropout", 0.1, 0.5),
        Dimension("augment", choices=(True, False)),
    )
    assert read_search(["batch=16..64"], "digits") == (Dimension("batch", 16, 64),)


def test_values_reach_training_and_the_network() -> None:
    job = with_values(
        TrainJob("digits", "digits", network_options={"classes": 10}), {"lr": 0.1, "dropout": 0.5}
    )
    assert (job.lr, job.network_options) == (0.1, {"classes": 10, "dropout": 0.5})


def test_a_search_space_that_does_not_do(subtests: pytest.Subtests) -> None:
    for texts, message in [
        ([], "the search space is empty"),
        (["lr"], "search is 'lr', but must be NAME=LOW..HIGH"),
        (["lr="], "search is 'lr=', but must be NAME="),
        (["rate=1..2"], "search names the option 'rate', which cannot be searched"),
        (["depth=1,2"], "search names the option 'depth', which cannot be searched"),
        (["lr=1..0.1"], "a range needs two numbers, the smaller first"),
        (["lr=0..1:log"], "above 0 for :log"),
        (["lr=a..b"], "a range needs two numbers"),
        (["lr=0.1..1:cubic"], "a range needs two numbers"),
        (["batch=,"], "search is 'batch=,', but must be NAME="),
        (["lr=0.1,0.2", "lr=0.3,0.4"], "search names the option 'lr' twice"),
    ]:
        with subtests.test(texts=texts, message=message), pytest.raises(UsageError, match=message):
            read_search(texts, "digits")


def test_options_that_do_not_do() -> None:
    for values, message in (
        ({"trials": 0}, "trials is 0, but must be at least 1"),
        ({"workers": 0}, "workers is 0, but must be at least 1"),
        ({"pruner": "axe"}, "pruner is 'axe', but must be one of hyperband, median, none"),
    ):
        with pytest.raises(UsageError, match=message):
            TuneOptions(**values)  # type: ignore[arg-type]
    for train, message in (
        (TrainOptions(val="none"), "a search compares its trials by their validation"),
        (TrainOptions(ranks=2), "leave ranks and resume out"),
    ):
        with pytest.raises(UsageError, match=message):
            TuneJob.of("digits", "digits", ["lr=0.1,0.2"], TuneOptions(train=train), "")


def test_what_is_wrong_is_said_before_anything_is_started() -> None:
    with pytest.raises(UsageError, match="there is no network 'resnet'"):
        tune("resnet", "digits", ["lr=0.1,0.2"], dsn="dbname=unused")
    with pytest.raises(DataError, match="there is no data 'nowhere'"):
        tune("digits", "nowhere", ["lr=0.1,0.2"], dsn="dbname=unused")
    with pytest.raises(UsageError, match="the hosts have 1 slots, but 2 workers were requested"):
        tune("digits", "digits", ["lr=0.1,0.2"], TuneOptions(workers=2, hosts="a:1"), dsn="dbname=unused")
    with pytest.raises(UsageError, match="the precision of finder is no mean over shards"):
        tune("finder", "written:8", ["lr=0.1,0.2"], TuneOptions(hop=True, workers=2), dsn="dbname=unused")
