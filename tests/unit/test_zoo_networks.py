"""The zoo: parameter counts as published, shapes, names, manifests, losses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbinfer_models import NETWORKS, network, write_manifest
from dbinfer_udf.manifest import Manifest


def _trainable(model: Any) -> int:
    return sum(int(np.prod(weight.shape)) for weight in model.trainable_weights)


@pytest.mark.wide
def test_parameters_as_published(subtests: pytest.Subtests) -> None:
    for name, options, published in [
        ("vgg19bn", {"batch_norm": False}, 143_667_240),  # Simonyan and Zisserman, table 2; torchvision vgg19
        ("vgg19bn", {}, 143_678_248),  # torchvision vgg19_bn
        (
            "vgg19bn_cifar",
            {"batch_norm": False},
            20_024_384 + 5_130,
        ),  # Keras VGG19 without top, and 512 to 10
        ("alexnet", {}, 61_100_840),  # torchvision alexnet (one tower)
    ]:
        with subtests.test(name=name, options=options, published=published):
            assert _trainable(NETWORKS[name].build(**options)) == published


def _unet_parameters(depth: int, width: int, channels: int) -> int:
    """Count by hand: 3x3 kernels without bias, two values per normalised filter, biases elsewhere."""
    widths = [width * 2**level for level in range(depth + 1)]
    total, before = widths[0] + 1, channels
    for filters in widths:
        total += 9 * before * filters + 9 * filters * filters + 4 * filters
        before = filters
    for filters in widths[:-1]:
        total += 4 * 2 * filters * filters + filters
        total += 9 * 2 * filters * filters + 9 * filters * filters + 4 * filters
    return total


@pytest.mark.parametrize(("depth", "width", "channels"), [(7, 8, 3), (3, 4, 1)])
def test_unet_parameters_counted_by_hand(depth: int, width: int, channels: int) -> None:
    model = NETWORKS["unet"].build(size=128, depth=depth, base_width=width, channels=channels)
    assert _trainable(model) == _unet_parameters(depth, width, channels)


def test_full_unet() -> None:
    model = NETWORKS["unet"].build()
    assert model.input_shape == (None, 512, 512, 3)
    assert model.output_shape == (None, 512, 512, 1)
    filters = [model.get_layer(f"block{block}_conv1").filters for block in range(1, 9)]
    assert filters == [8, 16, 32, 64, 128, 256, 512, 1024]
    assert model.get_layer("block8_conv2").output.shape == (None, 4, 4, 1024)


@pytest.mark.parametrize(("size", "depth"), [(100, 3), (64, 7), (64, 0)])
def test_unet_size_must_fit_depth(size: int, depth: int) -> None:
    with pytest.raises(ValueError, match=f"size {size} does not fit depth {depth}"):
        NETWORKS["unet"].build(size=size, depth=depth)


@pytest.mark.wide
def test_manifest_fits_the_network(subtests: pytest.Subtests) -> None:
    for name in sorted(NETWORKS):
        with subtests.test(name=name):
            entry = NETWORKS[name]
            model, manifest = entry.build(), entry.manifest()
            assert model.name == entry.name == manifest.name == name
            assert model.input_shape[1:] == (manifest.height, manifest.width, manifest.channels)
            if manifest.labels:
                # Of a detector the first output has the scores of the classes, one map each
                shape = model.outputs[0].shape
                assert (shape[0], shape[-1]) == (None, len(manifest.labels))


def test_manifest_takes_the_options_of_build() -> None:
    manifest = NETWORKS["unet"].manifest(size=64, depth=2, channels=1)
    assert (manifest.height, manifest.channels, manifest.color) == (64, 1, "GRAY")


def test_unknown_network_names_those_there_are() -> None:
    with pytest.raises(KeyError, match=r"no network 'lenet'.*alexnet, digits, finder, unet"):
        network("lenet")


def test_listing_needs_no_tensorflow() -> None:
    code = "import sys, dbinfer_models; print(bool({'tensorflow', 'keras'} & set(sys.modules)))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "False"


@pytest.mark.wide
def test_manifest_file_is_read_back(tmp_path: Path) -> None:
    manifest = NETWORKS["digits"].manifest()
    path = write_manifest(tmp_path, manifest)
    assert path.name == "manifest.json"
    assert Manifest.from_dict(json.loads(path.read_text())) == manifest
    assert [entry.name for entry in tmp_path.iterdir()] == ["manifest.json"]
