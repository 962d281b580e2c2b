"""Which precision a version runs at where its manifest leaves it open: the fastest that agrees with f32.

It is chosen once, at deploy, on the machine that deploys, and holds for every host: two hosts that computed in two
precisions would give two answers to one query.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbinfer.errors import ModelFileError
from dbinfer.progress import OnProgress, Progress
from dbinfer.registry import trial as trials
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.processor import precisions
from dbinfer_udf.trial import Limits, Result, Sample

if TYPE_CHECKING:
    from dbinfer.registry.prepare import PreparedModel

AUTO, BASE = "auto", "f32"
LEAST = 0.999  # top-1, dice or cosine: what of f32 must stay
LEAST_BOXES = 0.99  # one more or less at the threshold is no fault
GAIN = 0.95  # of f32's time: below this share a precision is worth its difference
# A network that is faster than this is not what a row waits for
WORTH_MILLISECONDS = 0.3
IMAGES, SECONDS = 32, 3.0
MOST_IMAGES = 512  # of a query


@dataclass(frozen=True)
class Tried:
    """One precision: milliseconds of an image, and how far it agrees with f32 (None for f32 itself)."""

    milliseconds: float
    agreement: float | None = None


@dataclass(frozen=True)
class Choice:
    """What was chosen, and why.

    Attributes:
        precision: of the version from now on.
        measure: top-1, dice, boxes or cosine; "" where nothing was compared.
        images: compared; of_query: whether they came from a query of the user's.
        tried: by precision.
    """

    precision: str
    measure: str = ""
    images: int = 0
    of_query: bool = False
    tried: dict[str, Tried] | None = None


def choose(
    path: Path,
    prepared: PreparedModel,
    manifest: Manifest,
    limits: Limits,
    query: tuple[str, str | None] | None,
    progress: OnProgress,
) -> tuple[Choice, Result]:
    """Try the model in f32 and what else the processor computes in; return the choice and what that took.

    Args:
        query: SQL and the database to get images from; None: they are made.

    Raises:
        ModelFileError: it does not pass its trial in f32.
        DataError: the query gives no images.
    """
    # the runs keep the first output alone, and of the others nobody knows
    others = [] if _quantized(prepared) or manifest.outputs else precisions()
    with tempfile.TemporaryDirectory(prefix="dbinfer-precision-") as folder:
        compared = _Comparison(path, prepared, manifest, limits, Path(folder))
        if others:
            compared.images(query)
        base = compared.run(BASE)
        if not others or base.milliseconds < WORTH_MILLISECONDS:
            return Choice(BASE), base
        results = {BASE: base}
        for precision in others:
            progress(Progress(f"comparing {precision} with {BASE}"))
            # a precision that fails is one less to choose from
            try:
                results[precision] = compared.run(precision)
            except ModelFileError:
                continue
        return compared.choice(results, query is not None)


class _Comparison:
    """Runs of one model on the same images, in a process each, with their outputs in files."""

    def __init__(
        self, path: Path, prepared: PreparedModel, manifest: Manifest, limits: Limits, folder: Path
    ) -> None:
        self.path, self.prepared, self.manifest, self.limits = path, prepared, manifest, limits
        self.folder = folder
        self.sample = False

    def images(self, query: tuple[str, str | None] | None) -> None:
        """Write the images that all runs see."""
        import numpy as np

        from dbinfer.agree.images import Pixels, made, query_rows

        if query is None:
            found = made(IMAGES, self.manifest)
        else:
            pixels = Pixels(self.manifest)
            found = np.stack([pixels(row[0]) for row in query_rows(query[0], MOST_IMAGES, query[1])])
        np.save(self.folder / "images.npy", found)
        self.sample = True

    def run(self, precision: str) -> Result:
        """Try the model in one precision."""
        files = str(self.folder / "images.npy"), str(self.folder / precision)
        sample = Sample(*files, SECONDS) if self.sample else None
        return trials.try_model(self.path, self.prepared, precision, self.limits, sample)

    def choice(self, results: dict[str, Result], of_query: bool) -> tuple[Choice, Result]:
        """Return the fastest of the precisions that agree, and what it took."""
        from dbinfer.agree.measure import sameness

        outputs = {precision: self._outputs(precision) for precision in results}
        count = min(map(len, outputs.values()))
        tried, measure = {BASE: Tried(self._milliseconds(BASE))}, ""
        for precision in list(results)[1:]:
            measure, value = sameness(self.manifest, outputs[BASE][:count], outputs[precision][:count])
            tried[precision] = Tried(self._milliseconds(precision), round(value, 5))
        best = _fastest(tried, LEAST_BOXES if measure == "boxes" else LEAST)
        return Choice(best, measure, count if measure else 0, of_query, tried), results[best]

    def _milliseconds(self, precision: str) -> float:
        """Return what an image takes when nothing disturbs it: other programs make some slower and none faster."""
        taken = sorted(json.loads((self.folder / f"{precision}.json").read_text()))
        return float(round(taken[len(taken) // 8], 3))

    def _outputs(self, precision: str) -> Sequence[Any]:
        import numpy as np

        shape = self.prepared.output
        values = np.fromfile(self.folder / precision, np.float32)
        return list(values.reshape(-1, *shape))


def _fastest(tried: dict[str, Tried], least: float) -> str:
    bound = tried[BASE].milliseconds * GAIN
    good = [
        name
        for name, one in tried.items()
        # `not below`: NaN agrees with nothing
        if one.agreement is not None and one.agreement >= least and one.milliseconds < bound
    ]
    return min(good, key=lambda name: tried[name].milliseconds, default=BASE)


def _quantized(prepared: PreparedModel) -> bool:
    """Return whether the network computes in integers already: its other layers stay as they were validated."""
    return b'type="FakeQuantize"' in prepared.xml
