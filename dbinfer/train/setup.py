"""What a run will do, settled before any long work: network, images and classes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dbinfer.base.errors import DataError, TrainError, UsageError
from dbinfer.images.boxes import check_installed
from dbinfer.train.data import find_part, snapshot_of_this_rank
from dbinfer.train.datasets import Folder, check_sizes
from dbinfer.train.described import describe_apart
from dbinfer.train.loader import Loader, Pipeline
from dbinfer.train.options import TrainJob
from dbinfer.train.own import Own, find_network
from dbinfer.train.query import Snapshot
from dbinfer.train.source import LABELLED, ONE_LABEL, Kept, Source
from dbinfer_models import Network
from dbinfer_udf.manifest import Manifest, ManifestError

# 2^32 / golden ratio: consecutive multiples spread evenly over 0..2^32 (Knuth, vol. 3, 6.4)
GOLDEN = 2654435761
HEAVIEST = 100.0  # a label of one image in a million would drown all others
SAME_IMAGES = (
    "Put the same files on every host. "
    "A query needs a unique key as its third column or at the end of ORDER BY."
)


@dataclass(frozen=True)
class Rows:
    """Some rows of a source."""

    source: Source
    rows: Sequence[int]


@dataclass(frozen=True)
class Setup:
    """A job with all that follows from it.

    Attributes:
        network: with the `options` for its build and the `manifest` of the result.
        train, val: the images; val is None without a validation.
        snapshot: the state of the database that they are read from; `close` ends it.
    """

    job: TrainJob
    network: Network
    options: dict[str, Any]
    manifest: Manifest
    train: Rows
    val: Rows | None
    snapshot: Snapshot

    @property
    def images(self) -> dict[str, int]:
        """How many images train and validate."""
        return {"train": len(self.train.rows), "validation": len(self.val.rows) if self.val else 0}

    def training(self, rank: int, size: int) -> Pipeline:
        """Return the batches of one rank; opens its images."""
        alone = self.job.sharding == "all"
        rows = self.train.rows if alone else shard(self.train.rows, rank, size)
        # Rounded up: the first ranks take the remainder
        longest = len(self.train.rows) if alone else -(-len(self.train.rows) // size)
        return self._pipeline(self.train.source, rows, rank, longest)

    def validation(self, rank: int, size: int) -> Pipeline | None:
        """Return the part of the validation images that one rank evaluates; None where it has none."""
        rows = shard(self.val.rows, rank, size) if self.val else ()
        return self._pipeline(self.val.source, rows, rank, len(rows)) if self.val and rows else None

    def fingerprint(self) -> str:
        """Return a text that must be the same on all ranks: it identifies the images and their order."""
        return " ".join(part.source.fingerprint() for part in (self.train, self.val) if part)

    def check_alike(self, share: Callable[[Any], Any], gather: Callable[[float], Sequence[Any]]) -> None:
        """Wait until every rank has read its images, and stop where they saw other images or another order.

        They would wait for each other's gradients for ever.

        Args:
            share: returns rank 0's value on every rank.
            gather: returns the numbers of all ranks in their order.
        """
        seen = [self.fingerprint(), len(self.train.rows)]
        differ, counts = gather(float(share(seen) != seen)), gather(len(self.train.rows))
        if any(differ):
            rank = list(map(bool, differ)).index(True)
            raise TrainError(
                f"rank {rank} sees other images than rank 0, or in another order "
                f"({counts[rank]:.0f} and {counts[0]:.0f} images)",
                SAME_IMAGES,
            )

    def visited(self, number: int, shards: int) -> tuple[Pipeline, Pipeline | None]:
        """Return the batches of one shard, each image once, to train and evaluate the weights that visit it."""
        rows = shard(self.train.rows, number, shards)
        train = self._pipeline(self.train.source, rows, number, len(rows))
        return train, self.validation(number, shards)

    def keeping_images(self, rank: int = 0, size: int = 1) -> Setup:
        """Return the setup with the images of one shard in memory, for many jobs of one process."""
        train = replace(self.train, source=Kept.of(self.train.source, shard(self.train.rows, rank, size)))
        val = self.val
        if val and (rows := shard(val.rows, rank, size)):
            val = replace(val, source=Kept.of(val.source, rows))
        self.close()
        return replace(self, train=train, val=val)

    def for_job(self, job: TrainJob) -> Setup:
        """Return the setup of another job on the same images."""
        options, manifest = _settle(self.network, job.network_options, self.train.source.labels)
        return replace(self, job=job, options=options, manifest=manifest)

    def close(self) -> None:
        """End the snapshot: all images have been read."""
        self.snapshot.close()

    def _pipeline(self, source: Source, rows: Sequence[int], rank: int, length: int) -> Pipeline:
        loader = Loader(source.open(rows), self.manifest, self.job.on_bad == "skip")
        return Pipeline(loader, self.job, rank, length)


def check_images(setup: Setup) -> None:
    """Compare images and masks of folders by their headers, where a bad one must end the run."""
    for part in (setup.train, setup.val):
        if part and isinstance(part.source, Folder) and setup.job.on_bad == "error":
            check_sizes(part.source)


def make_setup(job: TrainJob) -> Setup:
    """Find network and data and check that they fit; no image is decoded and TensorFlow is not needed.

    A network of the user's own is described, by a process of its own, unless the job says already what follows from it.

    Raises:
        UsageError, DataError, TrainError: one sentence each.
    """
    network = find_network(job)
    check_boxes(network, job)
    snapshot = snapshot_of_this_rank(job.dsn)
    source = find_part(job, "data", snapshot, job.settled_labels)
    check_labels(source, job)
    if isinstance(network, Own) and not job.described:
        job = describe_apart(job, source)
        network = find_network(job)
    check_task(network, source.task)
    if job.balance and not job.weights:
        job = replace(job, weights=balanced(source))
        network = find_network(job)
    options, manifest = _settle(network, job.network_options, source.labels)
    train, val = _parts(job, source, snapshot)
    check_enough(len(train.rows), job.ranks if job.sharding == "split" else 1)
    if job.early_stop and val is None:
        raise UsageError(
            f"early_stop is {job.early_stop}, but no image validates: nothing says when to stop",
            "Give a validation with --val or --val-fraction, or leave out --early-stop.",
        )
    return Setup(
        job=job, network=network, options=options, manifest=manifest, train=train, val=val, snapshot=snapshot
    )


def check_labels(source: Source, job: TrainJob) -> None:
    """Raise DataError where there is no image, only one class, or other classes than those of the version."""
    if job.settled_labels and source.labels and source.labels != job.settled_labels:
        raise DataError(
            f"the data has the labels {', '.join(source.labels)}, but {job.version} has "
            f"{', '.join(job.settled_labels)}",
            "For new labels, give it a new head: --fine-tune 0.3",
        )
    if source.task != "detection" and not source.count():
        raise DataError(
            "there are no images to train on", "Let the query return rows with an image and a label or mask."
        )
    if source.task in LABELLED and len(source.labels) == 1:
        raise DataError(
            f"all images have the label {source.labels[0]!r}, so there is nothing to tell apart"
            if source.task in ONE_LABEL
            else f"the only label is {source.labels[0]!r}, so there is nothing to tell apart",
            "Train on images of two labels or more.",
        )


def balanced(source: Source) -> list[float]:
    """Return the weight of each label: one of several, by how rare it is; of images with several, as lacking / having.

    Raises:
        UsageError: the data has no labels.
    """
    if source.task not in LABELLED:
        raise UsageError(f"balance weighs labels, but the data is for {source.task}", "Leave out --balance.")
    images, counts = source.count(), source.counts()
    each = len(counts) if source.task in ONE_LABEL else 1
    lacking = 0 if source.task in ONE_LABEL else 1
    weights = [(images - lacking * count) / (each * count) if count else 1.0 for count in counts]
    return [min(max(weight, 1 / HEAVIEST), HEAVIEST) for weight in weights]


def check_boxes(network: Network, job: TrainJob) -> None:
    """Raise where a network that finds boxes cannot be trained with this job's options."""
    if not network.finds_boxes:
        return
    if job.strategy != "horovod":
        raise UsageError(
            f"the strategy {job.strategy} does not train networks that find boxes, as {network.name} does",
            "Leave out --strategy.",
        )
    check_installed()


def check_task(network: Network, task: str) -> None:
    """Raise TrainError where the network is for another task than the data."""
    own = network.facts["task"] if isinstance(network, Own) else network.manifest().task
    if own != task:
        raise TrainError(
            f"the data is for {task}, but the network {network.name} is for {own}",
            "Choose another network (one of your own learns several labels at once, scales and numbers), or data of "
            "the other kind (masks, boxes or classes; an enum is a scale, and its text a class: label::text).",
        )


def _settle(
    network: Network, options: dict[str, Any], labels: tuple[str, ...]
) -> tuple[dict[str, Any], Manifest]:
    """Return the build options, with the number of classes that the data has, and the manifest with their names."""
    if isinstance(network, Own):
        manifest = network.manifest()
        return network.options, replace(manifest, labels=labels) if labels else manifest
    if labels:
        options = {"classes": len(labels), **options}
        if options["classes"] != len(labels):
            raise TrainError(
                f"the data has {len(labels)} classes, but the option classes is {options['classes']}"
            )
    try:
        manifest = network.manifest(**options)
    except (TypeError, ValueError) as err:
        raise UsageError(f"the network {network.name} does not accept the options {options}: {err}") from err
    except ManifestError as err:
        raise UsageError(f"the network {network.name} cannot have the options {options}: {err}") from err
    return options, replace(manifest, labels=labels) if labels else manifest


def _parts(job: TrainJob, source: Source, snapshot: Snapshot) -> tuple[Rows, Rows | None]:
    count = source.count()
    everything = Rows(source, range(count))
    if job.val == "none":
        return everything, None
    own = find_part(job, "val", snapshot, source.labels) if job.val else source.heldout()
    if own is not None:
        if own.task != source.task:
            raise UsageError(f"val is for {own.task}, but data is for {source.task}")
        return everything, Rows(own, range(own.count()))
    train, held = hold_out(count, job.val_fraction)
    return Rows(source, train), Rows(source, held) if held else None


def shard(rows: Sequence[int], rank: int, size: int) -> Sequence[int]:
    """Return the part of `rows` for one rank: in order, without gaps, the remainder over the first ranks.

    5000 rows over 10 ranks: rank 0 has 0..499, rank 9 has 4500..4999; 7 over 3: 3, 2 and 2 rows.
    """
    each, more = divmod(len(rows), size)
    first = rank * each + min(rank, more)
    return rows[first : first + each + (rank < more)]


def check_enough(count: int, ranks: int, what: str = "ranks") -> None:
    """Raise TrainError where some rank would have no image."""
    if count < ranks:
        raise TrainError(
            f"{ranks} {what} are more than the {count} training images: some would have nothing to do",
            f"Use at most {max(count, 1)} {what}, or more images.",
        )


def hold_out(count: int, fraction: float) -> tuple[Sequence[int], Sequence[int]]:
    """Return the rows to train on and those held out, the same in every run and on every rank.

    The held-out rows lie evenly spread, without a period that the order of the data could share.
    """
    limit = round(fraction * 2**32)
    # Row + 1, because row 0 would always be held out
    held = [row for row in range(count) if (row + 1) * GOLDEN % 2**32 < limit]
    if not held:
        return range(count), []
    chosen = set(held)
    return [row for row in range(count) if row not in chosen], held
