"""The demo: from a trained model to SQL, on real images, in a few minutes; run again it only repeats the scoring."""

from __future__ import annotations

import re

from dbinfer.base.errors import TrainError
from dbinfer.base.progress import OnProgress, silent
from dbinfer.database.pins import install, lacking
from dbinfer.demo.story import DemoOptions, DemoReport

__all__ = ["DemoOptions", "DemoReport", "demo"]


def demo(
    options: DemoOptions | None = None, dsn: str | None = None, progress: OnProgress = silent
) -> DemoReport:
    """Train two networks, convert, deploy, load images, score them in SQL.

    Args:
        dsn: the database, as for connect(); where none is given, the embedded server, started if need be.
        progress: is told each step, its command and its result, as notes.

    Raises:
        DbinferError: a step failed, or the results are worse than they should be.
    """
    if missing := lacking("train"):
        names = ", ".join(re.split(r"[<>=~]", package)[0] for package in missing)
        raise TrainError(f"the demo trains, and lacks the packages {names}", install("train"))
    from dbinfer.demo.acts import play

    return play(options or DemoOptions(), dsn, progress)
