"""Why a worker died, as the error of the row that it scored."""

from __future__ import annotations

import os
import signal

from .errors import RowError


def why(status: int, seconds: float, rows: int) -> RowError:
    """Return the error of a request whose worker ended with this status, as waitpid gives it.

    Args:
        seconds: that the request was allowed.
        rows: images of one inference.
    """
    if not os.WIFSIGNALED(status):
        return RowError("the worker that scored this image ended with status %d" % (status >> 8))
    number = os.WTERMSIG(status)
    if number == signal.SIGALRM:
        return RowError(
            "scoring %s took more than %g s" % (_images(rows), seconds),
            hint="If the model is right, allow more: dbinfer install --max-inference-seconds NUMBER",
            sqlstate="54000",
        )
    if number == signal.SIGKILL:
        return RowError("the worker that scored %s was killed" % _images(rows))
    return RowError("the worker that scored %s crashed (%s)" % (_images(rows), signal.Signals(number).name))


def _images(rows: int) -> str:
    return "this image" if rows == 1 else "these %d images" % rows
