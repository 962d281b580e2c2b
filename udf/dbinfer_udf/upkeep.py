"""What administrators ask a session for: the facts of its host's cache and of itself, and to leave the host."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Any, List, Optional

from . import cache as caches
from . import fastjson, handover, housekeeping, process
from .errors import UdfError
from .status import collect
from .ticket import report


def cache(session: Any, plpy: Any, settings: str, digests: Optional[List[str]]) -> str:
    """Return the facts of this host's cache as JSON; `digests` None: prune nothing."""
    session.settle()
    try:
        return fastjson.dumps(housekeeping.collect(fastjson.loads(settings), digests))
    except UdfError as err:
        report(plpy, err)


def leave(session: Any, plpy: Any, settings: str) -> int:
    """Remove what only this database has put on this host; return how many models that were."""
    session.settle()
    values = fastjson.loads(settings)
    folders = {caches.default_folder(), values.get("cache_dir") or caches.default_folder()}
    try:
        removed = [
            one for folder in sorted(folders) for one in housekeeping.leave(folder, values["databases"])
        ]
    except UdfError as err:
        report(plpy, err)
    if process.dispatches():
        handover.leave()
    elif process.content_id() not in (None, process.COORDINATOR):
        # gpexpand makes a new segment of the coordinator's folder, and nobody reads it there
        shutil.rmtree(os.path.dirname(handover.session_folder()), ignore_errors=True)
    session.usage().leave(values["databases"])
    return len(removed)


def status(session: Any, settings: str) -> str:
    """Return what there is to know of this backend and its host, as JSON."""
    try:
        return fastjson.dumps(collect(session, fastjson.loads(settings)))
    except Exception as err:
        # one sick backend must not hide the others in the view
        return fastjson.dumps(
            {"problem": "%s: %s" % (type(err).__name__, err), "python": sys.version.split()[0]}
        )
