"""What a run will do, settled before any long work: network, images for training and validation, classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbinfer.errors import TrainError, UsageError
from dbinfer.train.config import TrainConfig
from dbinfer.train.folders import check_sizes
from dbinfer.train.loader import Loader
from dbinfer.train.model import check_task
from dbinfer.train.pipeline import Pipeline
from dbinfer.train.shards import check_enough, hold_out, shard
from dbinfer.train.sources import Folder, Source, find_source
from dbinfer_models import NETWORKS, Network
from dbinfer_udf.manifest import Manifest, ManifestError


@dataclass(frozen=True)
class Part:
    """Some rows of a source."""

    source: Source
    rows: Sequence[int]


@dataclass(frozen=True)
class Plan:
    """See the module.

    Attributes:
        network: of the zoo, with the `options` for its build and the `manifest` of the result.
        train, val: the images; val is None without a validation.
    """

    config: TrainConfig
    network: Network
    options: dict[str, Any]
    manifest: Manifest
    train: Part
    val: Part | None

    def training(self, rank: int, size: int) -> Pipeline:
        """Return the batches of one rank; opens its images."""
        alone = self.config.sharding == "all"
        rows = self.train.rows if alone else shard(self.train.rows, rank, size)
        longest = len(self.train.rows) if alone else -(-len(self.train.rows) // size)
        return self._pipeline(self.train.source, rows, rank, longest)

    def validation(self, rank: int, size: int) -> Pipeline | None:
        """Return the part of the validation images that one rank judges; None where it has none."""
        rows = shard(self.val.rows, rank, size) if self.val else ()
        return self._pipeline(self.val.source, rows, rank, len(rows)) if self.val and rows else None

    def _pipeline(self, source: Source, rows: Sequence[int], rank: int, length: int) -> Pipeline:
        loader = Loader(source.open(rows), self.manifest, self.config.on_bad == "skip")
        return Pipeline(loader, self.config, rank, length)


def check_images(plan: Plan) -> None:
    """Compare images and masks of folders by their headers, where a bad one is to end the run."""
    for part in (plan.train, plan.val):
        if part and isinstance(part.source, Folder) and plan.config.on_bad == "error":
            check_sizes(part.source)


def make_plan(config: TrainConfig) -> Plan:
    """Find network and data and check that they fit; no image is decoded and TensorFlow is not needed.

    Raises:
        UsageError, DataError, TrainError: one sentence each.
    """
    if config.network not in NETWORKS:
        raise UsageError(f"there is no network {config.network!r}; there are {', '.join(sorted(NETWORKS))}.")
    network = NETWORKS[config.network]
    source = find_source(config.data, config.dsn)
    check_task(network, source.task)
    options, manifest = _settle(network, config.options, source.labels)
    train, val = _parts(config, source)
    check_enough(len(train.rows), config.ranks if config.sharding == "split" else 1)
    return Plan(config, network, options, manifest, train, val)


def _settle(
    network: Network, options: dict[str, Any], labels: tuple[str, ...]
) -> tuple[dict[str, Any], Manifest]:
    """Return the build options, with the number of classes that the data has, and the manifest with their names."""
    if labels:
        options = {"classes": len(labels), **options}
        if options["classes"] != len(labels):
            raise TrainError(
                f"the data has {len(labels)} classes, but the option classes is {options['classes']}."
            )
    try:
        manifest = network.manifest(**options)
    except (TypeError, ValueError) as err:
        raise UsageError(f"the network {network.name} does not take the options {options}: {err}.") from err
    except ManifestError as err:
        raise UsageError(f"the network {network.name} cannot have the options {options}: {err}.") from err
    return options, replace(manifest, labels=labels) if labels else manifest


def _parts(config: TrainConfig, source: Source) -> tuple[Part, Part | None]:
    count = source.count()
    everything = Part(source, range(count))
    if config.val == "none":
        return everything, None
    own = find_source(config.val, config.dsn, source.labels) if config.val else source.heldout()
    if own is not None:
        if own.task != source.task:
            raise UsageError(f"val is for {own.task}, but data is for {source.task}.")
        return everything, Part(own, range(own.count()))
    train, held = hold_out(count, config.val_fraction)
    return Part(source, train), Part(source, held) if held else None
