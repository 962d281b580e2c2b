"""What a rank tells the process that launched it: one marked line of JSON each, among whatever else is printed."""

from __future__ import annotations

import json
import sys
from typing import Any

from dbinfer import errors
from dbinfer.errors import DbinferError, TrainError

MARK = "dbinfer-event:"


def send(event: dict[str, Any]) -> None:
    """Print an event; the launchers pass it on with a prefix."""
    sys.stdout.write(f"{MARK}{json.dumps(event)}\n")
    sys.stdout.flush()


def send_error(err: DbinferError) -> None:
    """Print an error so that the launching process can raise it again."""
    send({"event": "error", "kind": type(err).__name__, "message": err.message, "cure": err.cure})


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
    error: DbinferError = kind(event["message"], event.get("cure", ""))
    return error
