"""Which precision a version runs at: the fastest that agrees with f32, found by trials; and hosts that lack its
instructions.

It is chosen once, at deploy, on the machine that deploys, and holds for every host: two hosts that computed in two
precisions would give two answers to one query.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from psycopg2.extensions import connection as Connection

from dbinfer.base import apart
from dbinfer.base.errors import ModelFileError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database.backends import Check
from dbinfer.models.prepare import PreparedModel
from dbinfer_udf.errors import ModelError
from dbinfer_udf.host.limits import threads_to_try
from dbinfer_udf.host.process import precisions
from dbinfer_udf.host.tokenizers import require_where_needed
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.model import device
from dbinfer_udf.model.trial import Limits, Result, Sample, TrialError, run_trial


def try_model(
    path: Path, prepared: PreparedModel, precision: str, limits: Limits, sample: Sample | None = None
) -> Result:
    """Return what the model takes of time and memory, with one thread and with more.

    Args:
        path: of the source, for the message.
        sample: images to run as well.

    Raises:
        ModelFileError: it cannot be compiled, crashes, takes more than the limits, or needs tokenizers that this
            machine lacks.
    """
    with tempfile.TemporaryDirectory(prefix="dbinfer-trial-") as folder:
        xml = Path(folder, "model.xml")
        xml.write_bytes(prepared.xml)
        xml.with_suffix(".bin").write_bytes(prepared.bin)
        try:
            require_where_needed(str(xml), version("openvino"))
            folders = [folder, *({os.path.dirname(path) for path in sample[:2]} if sample else ())]
            guards = device.guards(device.CPU, apart.libraries(), folders)
            return run_trial(
                sys.executable,
                str(xml),
                device.Setup(precision),
                limits,
                threads_to_try({}),
                sample=sample,
                guards=guards,
            )
        except TrialError as err:
            raise ModelFileError(f"{path} was not deployed: {err.message}", _hint(err.setting)) from err
        except ModelError as err:
            raise ModelFileError(f"{path} was not deployed: {err.message}", err.hint) from err


def _hint(setting: str) -> str:
    if not setting:
        return "Convert the model again, with the OpenVINO version that the database's hosts have."
    option = setting.replace("_", "-")
    return f"If the model is right, a superuser can allow more: dbinfer install --{option} NUMBER"


AUTO, BASE = "auto", "f32"
LEAST = 0.999  # top-1, dice or cosine: agreement with f32
LEAST_BOXES = 0.99  # one more or less at the threshold is no fault
GAIN = 0.95  # of f32's time: below this share a precision is worth its difference
# A row hardly waits for a network faster than this
WORTH_MILLISECONDS = 0.3
IMAGES, SECONDS = 32, 3.0
MOST_IMAGES = 512  # of a query


@dataclass(frozen=True)
class Measured:
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
    tried: dict[str, Measured] | None = None


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
    # the runs keep only the first output, so nothing would be known of the others
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

        from dbinfer.models.agree import Pixels, made, query_rows

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
        return try_model(self.path, self.prepared, precision, self.limits, sample)

    def choice(self, results: dict[str, Result], of_query: bool) -> tuple[Choice, Result]:
        """Return the fastest of the precisions that agree, and what it took."""
        from dbinfer.models.agree import sameness

        outputs = {precision: self._outputs(precision) for precision in results}
        count = min(map(len, outputs.values()))
        tried, measure = {BASE: Measured(self._milliseconds(BASE))}, ""
        for precision in list(results)[1:]:
            measure, value = sameness(self.manifest, outputs[BASE][:count], outputs[precision][:count])
            tried[precision] = Measured(self._milliseconds(precision), round(value, 5))
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


def _fastest(tried: dict[str, Measured], least: float) -> str:
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


MODELS = "SELECT name, precision FROM dbinfer.models WHERE precision OPERATOR(pg_catalog.<>) 'f32' ORDER BY 1"
SEGMENTS = "SELECT content, host, precisions FROM dbinfer.segments ORDER BY 1"
HINT = "Deploy it again with --precision f32, which every host computes."


def slow_hosts(conn: Connection) -> Check:
    """Return the check of all hosts and active models: results are right everywhere, but slow on some."""
    with conn.cursor() as cur:
        cur.execute(MODELS)
        models = cur.fetchall()
        # two statements: on Greenplum segments must not be asked while the coordinator reads tables
        cur.execute(SEGMENTS)
        hosts = [(host or _place(content), precisions) for content, host, precisions in cur.fetchall()]
    # None: the runtime of an older version
    slow = [
        f"{model} computes in {name}, for which {host} has no instructions"
        for model, name in models
        for host in sorted({host for host, able in hosts if able is not None and name not in able})
    ]
    if slow:
        return Check("precision", False, "; ".join(slow), HINT)
    return Check("precision", True, "every host has the instructions that the models want")


def _place(content: int | None) -> str:
    return "this server" if content is None else f"segment {content}"
