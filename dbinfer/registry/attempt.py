"""A model on its way into the registry: tried in the precision that it will have."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from dbinfer.progress import OnProgress, Progress
from dbinfer.registry import trial as trials
from dbinfer.registry.precision import AUTO, Choice, choose
from dbinfer.registry.prepare import PreparedModel
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.trial import Limits, Result


class Tried(NamedTuple):
    """The manifest with its precision, the files that backends load, what they took in the trial, and the choice."""

    manifest: Manifest
    prepared: PreparedModel
    trial: Result
    choice: Choice | None


@dataclass(frozen=True)
class Attempt:
    """Tries a prepared model.

    Attributes:
        images: a query for images to compare precisions on, run at `dsn`; None: they are made.
    """

    path: Path
    manifest: Manifest
    prepared: PreparedModel
    limits: Limits
    images: str | None
    dsn: str | None

    def __call__(self, progress: OnProgress) -> Tried:
        path, manifest, prepared = self.path, self.manifest, self.prepared
        progress(Progress("trying"))
        if manifest.precision != AUTO:
            result = trials.try_model(path, prepared, manifest.precision, self.limits)
            return Tried(manifest, prepared, result, None)
        query = None if self.images is None else (self.images, self.dsn)
        choice, result = choose(path, prepared, manifest, self.limits, query, progress)
        return Tried(replace(manifest, precision=choice.precision), prepared, result, choice)
