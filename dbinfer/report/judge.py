"""judge: how good the boxes are that a model finds, against those that somebody drew, with one query."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbinfer.base.errors import DataError
from dbinfer.base.report import Report
from dbinfer.database.connection import session

if TYPE_CHECKING:
    from dbinfer.images.boxes import Boxes

FETCH = 200  # rows at a time
HINT = "Write it as SELECT boxes, dbinfer.detect(img, 'model') FROM ...; boxes are the true ones."
Pair = tuple[list[dict[str, Any]], list[dict[str, Any]]]


@dataclass(frozen=True)
class JudgeReport(Report):
    """How good found boxes are.

    Attributes:
        images: rows of the query.
        true: true boxes.
        found: found boxes.
        map50: mean average precision over the classes, where a found box must overlap a true one by half (IoU).
        map50_95: the mean of those at overlaps of 0.5, 0.55 ... 0.95, as COCO has it.
    """

    images: int
    true: int
    found: int
    map50: float
    map50_95: float


def judge(query: str, dsn: str | None = None) -> JudgeReport:
    """Compare the boxes that a query finds with the true ones, as `dbinfer train` does after each epoch.

    Args:
        query: returns true boxes, then found ones: json, jsonb, or an array of rows with label, x, y, width and
            height, as dbinfer.detect returns it. Where the found ones are NULL nothing was found.

    Raises:
        DataError: the query has other columns, or no true box, or one that is none.
    """
    from dbinfer.images.boxes import average_precision, check_installed

    check_installed()
    pairs = list(_rows(query, dsn))
    labels = sorted({label for number, pair in enumerate(pairs) for label in _labels(pair, number)})
    numbers = {label: number for number, label in enumerate(labels)}
    images = [_boxes(pair, numbers, number) for number, pair in enumerate(pairs)]
    measured = average_precision(images)
    true, found = sum(len(image.true) for image in images), sum(len(image.found) for image in images)
    return JudgeReport(len(images), true, found, **measured)


def _rows(query: str, dsn: str | None) -> Iterator[Pair]:
    text = query.strip().rstrip(";").rstrip()
    with session(dsn, error=DataError, needs_dbinfer=False, readonly=True) as conn:
        with conn.cursor() as cursor:
            # Names of columns that are not there are no sentence that helps
            cursor.execute(f"SELECT * FROM ({text}) AS q LIMIT 0")
            names = [column.name for column in cursor.description or ()]
        if len(names) != 2:
            raise DataError(
                f"the query returns the columns {', '.join(names)}, but must return true and found boxes",
                HINT,
            )
        with conn.cursor("dbinfer_judge") as cursor:
            cursor.itersize = FETCH
            # the whole row, so that Greenplum 6, which has no to_jsonb, calls dbinfer.detect once
            both = "pg_catalog.row_to_json(q)"
            cursor.execute(f"SELECT {both} FROM ({text}) AS q(true_boxes, found_boxes)")
            for number, (row,) in enumerate(cursor):
                true, found = row["true_boxes"], row["found_boxes"]
                if true is None:
                    raise DataError(f"the true boxes of row {number} are NULL", "Add WHERE ... IS NOT NULL.")
                yield true, _best(found or [], number)


def _labels(pair: Pair, number: int) -> list[str]:
    from dbinfer.images.boxes import labels_of

    true, found = pair
    return labels_of(true, _row(number)) + labels_of(found, _row(number))


def _boxes(pair: Pair, numbers: dict[str, int], number: int) -> Boxes:
    import numpy as np

    from dbinfer.images.boxes import Boxes, packed, unpacked

    true, found = (unpacked(packed(boxes, numbers, _row(number))) for boxes in pair)
    scores = np.array([box["score"] for box in pair[1]], np.float32)
    return Boxes(np.column_stack([found[:, :4], scores, found[:, 4]]), true)


def _best(found: Any, number: int) -> Any:
    """Return the found boxes that count, each with a label: a model without labels tells numbers only."""
    from dbinfer.images.boxes import MOST

    if not isinstance(found, list) or not all(isinstance(box, dict) for box in found):
        return found  # whoever reads them says what they are
    for box in found:
        if not isinstance(box.get("score"), int | float):
            raise DataError(f"a found box of {_row(number)} has no score", HINT)
    best = sorted(found, key=lambda box: -box["score"])[:MOST]
    return [{**box, "label": box.get("label") or box.get("class")} for box in best]


def _row(number: int) -> str:
    return f"row {number} of the query"
