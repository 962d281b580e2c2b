"""The way of a trial's weights from shard to shard: which hop comes next, and what the hops add up to."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbinfer.train import TrainJob
from dbinfer.train.setup import make_setup
from dbinfer.tune.hop import Hop, Route


def hop(shard: int, images: int = 10, accuracy: float = 0.5) -> Hop:
    return Hop(shard, images, 1.0, {"accuracy": accuracy}, lr=0.1 * shard)


def route(*shards: int) -> Route:
    return Route(3, tuple(hop(number) for number in shards))


def test_the_weights_visit_every_shard_to_be_trained_and_then_every_shard_to_be_judged() -> None:
    assert (route().epoch, route().evaluating, route().left) == (1, False, {0, 1, 2})
    assert (route(2, 0).evaluating, route(2, 0).left, route(2, 0).trained) == (False, {1}, 2)
    assert (route(2, 0, 1).evaluating, route(2, 0, 1).left, route(2, 0, 1).trained) == (True, {0, 1, 2}, 3)
    assert route(2, 0, 1, 1).left == {0, 2}
    done = route(2, 0, 1, 0, 1, 2)
    assert (done.epoch, done.evaluating, done.left, done.trained) == (2, False, {0, 1, 2}, 3)
    more = done.after(hop(1))
    assert (more.epoch, more.left, more.trained) == (2, {0, 2}, 4)
    assert more.orders == [[2, 0, 1], [1]]


def test_a_route_is_read_from_what_was_noted() -> None:
    noted = {f"hop-{number}": hop(number % 3).to_dict() for number in range(11)}
    assert Route.of({"worker": 1, **noted}, 3) == Route(3, tuple(hop(number % 3) for number in range(11)))


def test_an_epoch_is_the_mean_over_all_images() -> None:
    hops = (hop(1, 30, 0.9), hop(0, 10, 0.5), Hop(0, 4, 2.0, {"val_accuracy": 0.75}), Hop(1, 0, 0.0))
    (epoch,) = Route(2, hops).history()
    assert (epoch.epoch, epoch.images, epoch.seconds, epoch.val_seconds) == (1, 40, 2.0, 2.0)
    assert epoch.values == {"accuracy": pytest.approx(0.8), "val_accuracy": 0.75}
    assert epoch.lr == 0


def test_the_shards_are_all_images_once(tmp_path: Path) -> None:
    """What the workers keep together is the data, neither more nor less; no worker has another's images."""
    job = TrainJob("digits", "digits", out=str(tmp_path))
    rows: list[int] = []
    for number in range(3):
        setup = make_setup(job).keeping_images(number, 3)
        train, val = setup.visited(number, 3)
        assert train.length == len(train.loader.samples)
        assert val is not None
        rows += [train.length, val.length]
    assert sum(rows[::2]) == 1438
    assert sum(rows[1::2]) == 359
    assert max(rows[::2]) - min(rows[::2]) <= 1
