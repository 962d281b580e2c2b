"""One process of a worker: two hands take turns in scoring batches of jobs, and a third answers requests.

While one hand scores, the other writes its results, claims the next batch and reads its images.
"""

from __future__ import annotations

import json
import sys

from dbinfer.worker.hands import Hand
from dbinfer.worker.lane import Lane
from dbinfer.worker.requests import Requests

HANDS = 2


def main() -> None:
    """Be a lane: the options come as JSON in the first argument, the dsn in $DBINFER_DSN."""
    lane = Lane(json.loads(sys.argv[1]))
    work = [Hand(lane).serve for _ in range(HANDS)]
    if lane.job is None:
        work.append(Requests(lane).serve)
    sys.exit(lane.run(work))
