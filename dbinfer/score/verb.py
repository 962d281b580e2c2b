"""score: in batches, or all rows in one transaction; which of the two, by the options and the table that is there."""

from __future__ import annotations

from dbinfer.connection import session
from dbinfer.progress import OnProgress, silent
from dbinfer.score.options import ScoreOptions, ScoreReport
from dbinfer.score.prepare import target_kind
from dbinfer.score.scoring import Scoring
from dbinfer.score.table import score_at_once


def score(
    table: str = "images",
    into: str = "predictions",
    options: ScoreOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> ScoreReport:
    """Score the rows of a table that this version of the model has not scored; the images stay in the database.

    Each batch is a transaction: what is scored stays, whatever happens, and the next call goes on. Two tables are made:
    `into` (key, model, version, result, scored_at), and `into`_errors with the reasons of bad images.

    Args:
        table, into: names of tables as a user writes them.

    Raises:
        DataError: `into` has another shape, rows have no key, too many are bad, or the server refused.
        UsageError: names that are none, or values that do not fit.
    """
    options = options or ScoreOptions()
    options.check()
    if options.at_once or _appends(table, into, options, dsn):
        return score_at_once(table, into, options, dsn, progress)
    scoring = Scoring(table, into, options, dsn)
    for event in scoring.batches():
        progress(event)
    assert scoring.report is not None
    return scoring.report


def _appends(table: str, into: str, options: ScoreOptions, dsn: str | None) -> bool:
    """Return whether to append to a table that no job has made: one of 0.1.0, or a user's own."""
    with session(dsn) as conn, conn.cursor() as cur:
        return target_kind(cur, table, into) == "other" and options.existing == "append"
