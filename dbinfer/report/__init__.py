"""report: one self-contained HTML page on what a table of results holds, for a person to read in a minute."""

from __future__ import annotations

from dbinfer.base.progress import OnProgress, silent
from dbinfer.report.options import PageReport, ReportOptions

__all__ = ["PageReport", "ReportOptions", "report"]


def report(
    table: str = "images",
    predictions: str = "predictions",
    options: ReportOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> PageReport:
    """Write an HTML page on results: classes, scores, masks or embeddings, bad rows, speed, provenance.

    Where the images have labels or true masks it says how good the results are; where the table holds two versions of
    a model, what changed between them. Nothing is changed in the database.

    Args:
        table, predictions: the images, and the results that dbinfer.score made of them; as a user writes their names.

    Raises:
        DataError: a table or column is not there, there are no results, or the page cannot be written.
        UsageError: names that are none, or values that do not fit.
    """
    # The template engine, OpenCV and numpy are not for who only imports dbinfer
    from dbinfer.report.page import make

    return make(table, predictions, options or ReportOptions(), dsn, progress)
