"""What a rank tells the process that launched it: marked lines of JSON among what else is printed; and how it ended."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from typing import Any

from dbinfer import errors
from dbinfer.errors import DbinferError, TrainError
from dbinfer.train import checkpoint
from dbinfer.train.options import TrainJob

MARK = "dbinfer-event:"
ENDED = (  # how mpirun, horovodrun and dbinfer.train.split tell of it
    re.compile(r"process rank (?P<rank>\d+) with PID \d+ on node \S+ exited on signal (?P<status>\d+)"),
    re.compile(r"dbinfer: rank (?P<rank>\d+) stopped with (?:signal|exit status) (?P<status>\d+)"),
    re.compile(r"Process name: (?:\[\[\d+,\d+\],)?(?P<rank>\d+)\]?\s+Exit code:\s+(?P<status>\d+)"),
)
RAISED = re.compile(r"\b[\w.]+(?:Error|Exception|Exit): .*")


def send(event: dict[str, Any]) -> None:
    """Print an event; the launchers pass it on with a prefix."""
    sys.stdout.write(f"{MARK}{json.dumps(event)}\n")
    sys.stdout.flush()


def send_error(err: DbinferError) -> None:
    """Print an error so that the launching process can raise it again."""
    send({"event": "error", "kind": type(err).__name__, "message": err.message, "cure": err.cure})


def sending_errors(work: Callable[[str], None], text: str) -> None:
    """Call `work`; an error of the user's is sent to the launching process, and this process ends with 1."""
    try:
        work(text)
    except DbinferError as err:
        send_error(err)
        sys.stdout.flush()
        os._exit(1)  # at once: other ranks wait in a collective operation for this one


def find(line: str) -> dict[str, Any] | None:
    """Return the event in a line of a launcher's output, or None."""
    _, mark, text = line.partition(MARK)
    if not mark:
        return None
    try:
        event = json.loads(text)
    except ValueError:
        return None
    return event if isinstance(event, dict) and "event" in event else None


def to_error(event: dict[str, Any]) -> DbinferError:
    """Return the error that a rank has sent."""
    kind = getattr(errors, str(event.get("kind")), TrainError)
    known = isinstance(kind, type) and issubclass(kind, DbinferError)
    error = kind if known else TrainError
    found: DbinferError = error(str(event.get("message", "")), str(event.get("cure", "")))
    return found


def stopped(job: TrainJob, code: int, last: Sequence[str]) -> TrainError:
    """Return the error for ranks that ended without saying why: killed, out of memory, lost."""
    cure = how_to_go_on(job)
    for pattern in ENDED:
        if found := pattern.search("\n".join(last)):
            rank, status = found["rank"], int(found["status"])
            how = (
                # A shell's exit status above 128 is 128 + the signal
                f"signal {status % 128}" if "signal" in found[0] or status > 128 else f"exit status {status}"
            )
            return TrainError(
                f"rank {rank} stopped with {how}, and the other ranks were ended.{_raised(last)}", cure
            )
    told = [f"\n  {line}" for line in last if line.strip()][-8:]
    return TrainError(f"a rank stopped (the launcher's exit status is {code}).{''.join(told)}", cure)


def how_to_go_on(job: TrainJob) -> str:
    """Return the hint for a run that stopped."""
    done = checkpoint.epochs(job.folder)
    return (
        f"Epoch {done[-1]} is kept: go on with --resume." if done else "No epoch was done yet: start again."
    )


def _raised(last: Sequence[str]) -> str:
    """Return the last line of a traceback that a rank has printed, if it did."""
    lines = [found[0] for line in last if (found := RAISED.search(line))]
    return f"\n  {lines[-1]}" if lines else ""
