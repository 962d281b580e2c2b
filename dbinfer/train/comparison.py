"""How a new version does against the active one on the images of the validation, both scored by SQL, and how sure it is
that the difference is not chance.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import psycopg2

from dbinfer.base.errors import DataError, DbinferError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database.connection import session
from dbinfer.train.loader import class_numbers
from dbinfer.train.report import Comparison
from dbinfer.train.setup import Rows
from dbinfer_models import VOID

FETCH = 16  # images at a time: they may be large
SURE = 0.95
RESAMPLES = 9999  # of the bootstrap


class Version(NamedTuple):
    """What of a version matters here."""

    reference: str
    task: str
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Way:
    """How one kind of truths is compared.

    Attributes:
        call: the SQL that scores `img`.
        measure: its name; `better` makes of its value one of which more is better.
        value: of a truth, an answer, and the labels.
        told: how the verdict says the first mean; `figure` is the format of that and of its hundredfold.
    """

    call: str
    measure: str
    value: Callable[[Any, Any, Sequence[str]], float]
    told: str
    figure: str
    better: int = 1


def active_version(name: str, dsn: str | None) -> Version | None:
    """Return the version that a model's plain name means; None where there is none."""
    with session(dsn, catalog_only=True) as conn, conn.cursor() as cur:
        cur.execute(
            "SELECT version, task, manifest->'labels' FROM dbinfer.model_versions WHERE name = %s AND active",
            (name,),
        )
        row = cur.fetchone()
    return Version(f"{name}@{row[0]}", row[1], tuple(row[2] or ())) if row else None


def compare(
    new: Version, active: Version | None, held: Rows | None, dsn: str | None, progress: OnProgress
) -> Comparison:
    """Score the images that were held out with both versions, and say which is better.

    What cannot be compared is no error: the verdict says why.
    """
    if active is None:
        return Comparison(f"there was no active version to compare {new.reference} with")
    try:
        return _compared(new, active, held, dsn, progress)
    except DbinferError as err:
        return not_compared(new, active, err.message)


def not_compared(new: Version, active: Version, why: str) -> Comparison:
    """Return what says that two versions were not compared."""
    return Comparison(f"{new.reference} was not compared with {active.reference}: {why}", active.reference)


def _compared(
    new: Version, active: Version, held: Rows | None, dsn: str | None, progress: OnProgress
) -> Comparison:
    labels = tuple(held.source.labels) if held else ()
    unknown = sorted(set(labels) - set(active.labels))
    if reason := _reason(new, active, held, unknown):
        raise DataError(reason)
    assert held is not None
    way, known = WAYS[held.source.task], labels or new.labels
    pairs = [
        (way.value(truth, ours, known), way.value(truth, theirs, known))
        for truth, ours, theirs in _scored(held, way.call, (new.reference, active.reference), dsn, progress)
    ]
    if len(pairs) < 2:
        raise DataError(f"{len(pairs)} images of the validation could be scored, which tell nothing")
    found = weighed(new.reference, active.reference, way, pairs)
    if not unknown:
        return found
    more = f" {active.reference} does not know the labels {', '.join(unknown)}, where its answers count as wrong."
    return replace(found, verdict=f"{found.verdict}{more}")


def _reason(new: Version, active: Version, held: Rows | None, unknown: Sequence[str]) -> str:
    """Return why the two cannot be compared; nothing where they can."""
    if new.reference == active.reference:
        return "it is the active version itself"
    if unlike := _unlike(new, active):
        return unlike
    if held is None or len(held.rows) < 2:
        return f"{len(held.rows) if held else 0} images validate, which tell nothing"
    if held.source.task not in WAYS:
        return "boxes are judged by a query, see dbinfer judge"
    if unknown and len(unknown) == len(held.source.labels):
        return "that one knows none of the labels"
    return ""


def _unlike(new: Version, active: Version) -> str:
    if new.task != active.task:
        return f"that one is for {active.task}, and this one for {new.task}"
    if new.task == "segmentation" and new.labels and len(new.labels) != len(active.labels):
        return f"its masks have {len(active.labels) or 'no named'} classes, and those of this one {len(new.labels)}"
    return ""


def _scored(
    held: Rows, call: str, references: tuple[str, str], dsn: str | None, progress: OnProgress
) -> Iterator[tuple[Any, Any, Any]]:
    """Yield truth and both answers of each image that both versions can read."""
    samples = held.source.open(held.rows)
    # The very images that were held out, whatever the tables hold by now
    images = "pg_catalog.unnest(%s::pg_catalog.bytea[]) WITH ORDINALITY AS t(img, number)"
    text = f"SELECT {call}, {call} FROM {images} ORDER BY number"
    with session(dsn, readonly=True) as conn, conn.cursor() as cur:
        for start in range(0, len(samples), FETCH):
            progress(Progress("comparing", start, len(samples), "images"))
            batch = [samples.read(index) for index in range(start, min(start + FETCH, len(samples)))]
            cur.execute(text, (*references, [psycopg2.Binary(image) for image, _ in batch]))
            for (_, truth), (ours, theirs) in zip(batch, cur.fetchall(), strict=True):
                if ours is not None and theirs is not None:
                    yield truth, ours, theirs


def weighed(new: str, active: str, way: Way, pairs: Sequence[tuple[float, float]]) -> Comparison:
    """Return the comparison of two versions by the measure of each image, of both."""
    import numpy as np

    values = np.array(pairs, np.float64)
    mine, theirs = values.mean(axis=0).tolist()
    difference = way.better * (values[:, 0] - values[:, 1])
    ahead, behind = int((difference > 0).sum()), int((difference < 0).sum())
    exact = way.measure == "accuracy"
    confidence = _mcnemar(ahead, behind) if exact else _bootstrap(difference)
    one, other = (way.figure.format(mean, mean * 100) for mean in (mine, theirs))
    told = f"Of {len(pairs)} images {new} {way.told} {one}, the active {active} {other}"
    if exact:
        where = f"of {ahead + behind} images that only one gets right, {new} has {ahead}"
    else:
        where = f"{new} is nearer to the truth on {ahead} images, {active} on {behind}"
    test = "McNemar" if exact else "bootstrap"
    verdict = f"{told}; {where}: {_conclusion(difference.mean(), confidence)} ({test})."
    return Comparison(
        verdict=verdict,
        active=active,
        measure=way.measure,
        images=len(pairs),
        new=round(mine, 6),
        old=round(theirs, 6),
        new_better=ahead,
        old_better=behind,
        confidence=round(confidence, 6),
    )


def _mcnemar(ahead: int, behind: int) -> float:
    from scipy.stats import binomtest

    return 1 - float(binomtest(ahead, ahead + behind).pvalue) if ahead + behind else 0.0


def _bootstrap(difference: Any) -> float:
    """Return how surely the mean of paired differences has its sign."""
    import numpy as np
    from scipy.stats import bootstrap

    if not difference.any():
        return 0.0
    # A seed, so that a run says the same twice; in batches, because all resamples at once need much memory
    drawn = bootstrap(
        (difference,), np.mean, n_resamples=RESAMPLES, batch=100, method="percentile", random_state=0
    ).bootstrap_distribution
    wrong = min(float((drawn <= 0).mean()), float((drawn >= 0).mean()))
    return max(1 - 2 * wrong, 0.0)


def _conclusion(difference: float, confidence: float) -> str:
    if confidence < SURE:
        return f"that may be chance, {_percent(confidence)} confidence"
    return f"{'better' if difference > 0 else 'worse'} with {_percent(confidence)} confidence"


def _percent(share: float) -> str:
    """Return a share in percent, never rounded up to certainty."""
    cut = math.floor(share * 1000) / 10
    return "more than 99.9 %" if cut > 99.9 else f"{cut:.1f} %"


def _right(truth: Any, answer: Any, labels: Sequence[str]) -> float:
    return float(answer["label"] == labels[int(truth)])


def _steps(truth: Any, answer: Any, labels: Sequence[str]) -> float:
    found = answer["label"]
    # A step that is none of this scale's is worse than any
    return float(abs(labels.index(found) - int(truth)) if found in labels else len(labels))


def _f1(truth: Any, answer: Any, labels: Sequence[str]) -> float:
    has = {label for label, one in zip(labels, array("f", truth), strict=True) if one}
    found = {entry["label"] for entry in answer}
    # Nothing to find and nothing found is right, as in training
    return 2 * len(has & found) / (len(has) + len(found)) if has or found else 1.0


def _error(truth: Any, answer: Any, _: Sequence[str]) -> float:
    return abs(float(array("f", truth)[0]) - float(answer[0]))


def _dice(truth: Any, answer: Any, labels: Sequence[str]) -> float:
    import cv2
    import numpy as np

    from dbinfer.models.agree import dice

    def gray(file: Any) -> Any:
        return cv2.imdecode(np.frombuffer(file, np.uint8), cv2.IMREAD_GRAYSCALE)

    true = class_numbers(truth, "a mask of the validation") if labels else gray(truth)
    found = gray(answer)
    if np.shape(true) != np.shape(found):
        raise DataError("a mask of the validation cannot be read, or has another size than its image")
    if not labels:
        return dice(true > 0, found > 0)
    known = true != VOID
    # From 1 on: `dice` takes 0 for the background, but here it is a class like the others
    return dice(true[known] + 1, found[known] + 1)


WAYS = {
    "classification": Way(
        "pg_catalog.row_to_json(dbinfer.classify(img, %s, 'null'))",
        "accuracy",
        _right,
        "gets right",
        figure="{1:.1f} %",
    ),
    "ordinal": Way(
        "pg_catalog.row_to_json(dbinfer.classify(img, %s, 'null'))",
        "error",
        _steps,
        "is off by steps of",
        figure="{0:.4g}",
        better=-1,
    ),
    "multilabel": Way(
        "pg_catalog.array_to_json(dbinfer.classify_all(img, %s, 'null'))",
        "f1",
        _f1,
        "has F1",
        figure="{0:.4f}",
    ),
    "regression": Way(
        "dbinfer.predict(img, %s, 'null')", "error", _error, "has mean error", figure="{0:.4g}", better=-1
    ),
    "segmentation": Way("dbinfer.segment(img, %s, 'null')", "dice", _dice, "has dice", figure="{0:.4f}"),
}
