"""The strategy split without JAX: which part of a network each process gets, and what is wrong with a mesh."""

from __future__ import annotations

import pytest

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.base.progress import Progress
from dbinfer.train import TrainJob, run
from dbinfer.train.mesh import Layout, Mesh
from dbinfer.train.strategies import shown_as_progress


def job(**more: object) -> TrainJob:
    return TrainJob("alexnet", "digits", strategy="split", **more)  # type: ignore[arg-type]


def test_processes_are_numbered_group_by_group() -> None:
    assert Mesh.of(job(ranks=4)) == Mesh(1, 4)
    mesh = Mesh.of(job(ranks=6, mesh="2x3"))
    assert [mesh.group(process) for process in range(6)] == [0, 0, 0, 1, 1, 1]


def test_the_progress_counts_an_image_once_for_each_group() -> None:
    told: list[Progress] = []
    tell = shown_as_progress(job(ranks=6, mesh="2x3", batch=8), told.append)
    tell({"event": "step", "epoch": 1, "step": 1, "steps": 3})
    assert [(one.done, one.total) for one in told] == [(16, 48)]


def test_a_mesh_that_cannot_be_read(subtests: pytest.Subtests) -> None:
    for text in ["2", "2x", "x2", "0x2", "2x2x1", "axb", "2 x 1", "-1x2"]:
        with (
            subtests.test(text=text),
            pytest.raises(UsageError, match=f"mesh is '{text}', but must be GROUPSxPARTS"),
        ):
            Mesh.of(job(ranks=2, mesh=text))


def test_what_cannot_be_split_is_said_before_anything_is_started() -> None:
    with pytest.raises(UsageError, match="the mesh 2x2 has 4 processes, but ranks is 2"):
        run(job(ranks=2, mesh="2x2"))
    with pytest.raises(UsageError, match="layout is 'half', but must be one of dense-by-outputs"):
        job(layout="half")


def test_jax_that_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    from dbinfer.train import strategies

    monkeypatch.setattr(strategies, "find_spec", lambda name: None)
    with pytest.raises(TrainError, match="the strategy split needs JAX, which is not installed"):
        run(job(ranks=2))


# AlexNet's variables, in the order in which its layers are built
VARIABLES = {
    "block1_conv1/kernel": (11, 11, 3, 64),
    "block1_conv1/bias": (64,),
    "fc1/kernel": (9216, 4096),
    "fc1/bias": (4096,),
    "fc2/kernel": (4096, 4096),
    "fc2/bias": (4096,),
    "scores/kernel": (4096, 10),
    "scores/bias": (10,),
}
SPLIT = {
    "dense-by-outputs": {
        "fc1/kernel": (None, "model"),
        "fc1/bias": ("model",),
        "fc2/kernel": (None, "model"),
        "fc2/bias": ("model",),
        "scores/kernel": (None, "model"),
        "scores/bias": ("model",),
    },
    "dense-in-pairs": {
        "fc1/kernel": (None, "model"),
        "fc1/bias": ("model",),
        "fc2/kernel": ("model", None),
        "scores/kernel": (None, "model"),
        "scores/bias": ("model",),
    },
    "all-by-outputs": {
        "block1_conv1/kernel": (None, None, None, "model"),
        "block1_conv1/bias": ("model",),
        "fc1/kernel": (None, "model"),
        "fc1/bias": ("model",),
        "fc2/kernel": (None, "model"),
        "fc2/bias": ("model",),
        "scores/kernel": (None, "model"),
        "scores/bias": ("model",),
    },
}


@pytest.mark.parametrize("name", list(SPLIT))
def test_a_preset_splits_what_it_is_named_after(name: str) -> None:
    layout = Layout(name, 2)
    found = {path: layout.of(path, shape) for path, shape in VARIABLES.items()}
    assert found == {path: SPLIT[name].get(path, (None,) * len(shape)) for path, shape in VARIABLES.items()}


def test_what_does_not_divide_stays_whole() -> None:
    layout = Layout("dense-by-outputs", 4)
    assert layout.of("fc1/kernel", (9216, 4096)) == (None, "model")
    assert layout.of("scores/kernel", (4096, 10)) == (None, None)
    assert layout.of("scores/bias", (10,)) == (None,)


def test_alexnet_split_in_two_leaves_half_of_it_in_each_process() -> None:
    """The published 61 million parameters, by the shapes; the run itself tells its share in run.json."""
    layout = Layout("dense-by-outputs", 2)
    convolutions = 64 * 3 * 121 + 64 + 192 * 64 * 25 + 192 + 384 * 192 * 9 + 384 + 256 * 384 * 9 + 256
    whole = held = convolutions + 256 * 256 * 9 + 256
    for path, shape in {**VARIABLES, "scores/kernel": (4096, 1000), "scores/bias": (1000,)}.items():
        if path.startswith("block"):
            continue
        size = shape[0] * (shape[1] if len(shape) == 2 else 1)
        whole += size
        held += size // 2 if "model" in layout.of(path, shape) else size
    assert whole == 61_100_840
    assert held / whole <= 0.55
