"""Where a network can be cut into stages, where it is, and that these together compute what the network computes."""

from __future__ import annotations

import gc
import weakref
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from float32 import tolerance

from dbinfer.base.errors import TrainError, UsageError
from dbinfer_models import NETWORKS

pytest.importorskip("keras")

import keras

from dbinfer.train.cuts import Chain, Span, cut_at, cut_by_time, example


def straight() -> Chain:
    first = tensor = keras.Input((4,))
    for number in range(5):
        tensor = keras.layers.Dense(4, name=f"d{number}")(tensor)
    return Chain.of(keras.Model(first, tensor))


def crossed() -> Chain:
    """A layer is used twice, two branches go past it, whole numbers cross in one place, and a model lies within."""
    image = keras.Input((8, 8, 1), name="image")
    shared = keras.layers.Conv2D(1, 3, padding="same", name="shared")
    first = keras.layers.Conv2D(1, 3, padding="same", name="first")(image)
    twice = shared(keras.layers.Lambda(lambda x: x * x, name="between")(shared(first)))
    added = keras.layers.Add(name="added")([twice, first, image])
    back = keras.ops.cast(keras.ops.cast(added, "int32"), "float32")
    inner = keras.Sequential(
        [keras.Input((8, 8, 1)), keras.layers.BatchNormalization(), keras.layers.Dropout(0.5)], name="inner"
    )
    return Chain.of(keras.Model(image, keras.layers.Flatten(name="flat")(inner(back))))


def unet() -> Chain:
    return Chain.of(NETWORKS["unet"].build(size=16, depth=2, base_width=2))


def test_the_slowest_stage_is_as_quick_as_can_be() -> None:
    chain = straight()
    assert cut_by_time(chain, [1, 1, 1, 1, 4], 2) == [4]
    assert cut_by_time(chain, [4, 1, 1, 1, 1], 2) == [1]
    assert cut_by_time(chain, [1, 2, 3, 2, 1], 3) == [2, 3]
    assert cut_by_time(chain, [1, 1, 1, 1, 1], 1) == []
    assert cut_by_time(chain, [1, 1, 1, 1, 1], 5) == [1, 2, 3, 4]


def test_too_many_stages_are_refused() -> None:
    with pytest.raises(TrainError, match="can be cut in 4 places, but 6 stages need 5"):
        cut_by_time(straight(), [1] * 5, 6)


def test_not_within_the_uses_of_a_layer_nor_where_whole_numbers_cross() -> None:
    assert list(crossed().places().values()) == ["first", "shared", "added", "cast_1", "inner"]


def test_cuts_by_name(subtests: pytest.Subtests) -> None:
    assert cut_at(straight(), ["d3", "d0"], 3) == [1, 4]
    for names, words in (
        (["d9"], "cuts names 'd9', but .* cannot be cut there"),
        (["d4"], "cuts names 'd4', but .* cannot be cut there"),  # nothing comes after it
        (["d1", "d1"], "cuts is 'd1,d1', but 3 stages are cut apart in 2 places"),
        (["d1"], "cuts is 'd1', but 3 stages"),
    ):
        with subtests.test(names=names), pytest.raises(UsageError, match=words):
            cut_at(straight(), names, 3)


@pytest.mark.parametrize("make", [straight, crossed, unet])
def test_stages_compute_what_the_network_computes(make: Any) -> None:
    """At every place, also where several tensors cross, of which some go through a stage as they are."""
    chain = make()
    given = keras.ops.convert_to_tensor(example(chain.model.inputs[0], 2))
    wanted = np.asarray(chain.model(given))
    places = list(chain.places())
    for cuts in ([], *([place] for place in places), places):
        ends = [0, *cuts, len(chain.nodes)]
        tensors = [given]
        for start, end in pairwise(ends):
            tensors = Span.of(chain, start, end).copied()(tensors, training=False)
        assert np.abs(np.asarray(tensors[0]) - wanted).max() <= tolerance(wanted, len(chain.nodes), 9 * 8)


def test_each_layer_is_timed_on_what_it_gets() -> None:
    chain = unet()
    seconds = chain.seconds(example(chain.model.inputs[0], 2))
    assert len(seconds) == len(chain.nodes)
    assert min(seconds) > 0


def test_a_stage_keeps_nothing_of_the_others() -> None:
    """Its process has room for its own weights alone."""
    chain = unet()
    first, *_ = chain.places()
    weights = [weakref.ref(variable) for variable in chain.model.weights]
    span = Span.of(chain, first, len(chain.nodes)).copied()
    del chain
    gc.collect()
    assert [weight() for weight in weights if weight() is not None] == []
    assert span.layers.weights
