"""A cancel takes effect after the row that is being scored, or while a model is tried; the longest wait is noted."""

from __future__ import annotations

import random
import threading
import time

import figures
import psycopg2
import pytest
from asking import ask, make_images, rows
from breakable import IMAGE, SLOW, Breakable, empty

pytestmark = [
    pytest.mark.wide,
    pytest.mark.postgres_only("its models are those of a server that is its own"),
    pytest.mark.alone("notes how long a cancel takes"),
]
CANCELS = 60 if figures.long() else 8
QUERY = "SELECT count(dbinfer.predict(img, 'slow')) FROM waiting"  # a tenth of a second a row


def cancelled_after(broken: Breakable, seconds: float) -> float | None:
    """Cancel the query after so many seconds; return how long that took, None where the query was quicker."""
    with broken.session() as db, broken.session() as other:
        pid, asked = ask(db, "SELECT pg_backend_pid()"), [0.0]

        def cancel() -> None:
            asked[0] = time.monotonic()
            ask(other, "SELECT pg_cancel_backend(%s)", pid)

        timer = threading.Timer(seconds, cancel)
        timer.start()
        try:
            rows(db, QUERY)
            return None
        except psycopg2.errors.QueryCanceled:
            return time.monotonic() - asked[0]
        finally:
            timer.join()
            # the session goes on
            assert ask(db, "SELECT dbinfer.predict(%s, 'slow')", IMAGE) == SLOW


@pytest.mark.parametrize("tried", [True, False], ids=["while it scores", "while the model is tried"])
def test_a_cancel_takes_effect(broken: Breakable, tried: bool) -> None:
    with broken.session() as db:
        make_images(db, "waiting", [IMAGE], 200)
        ask(db, "SELECT dbinfer.predict(%s, 'slow')", IMAGE)
    draw, waited = random.Random(5), []
    for _ in range(CANCELS):
        if not tried:
            empty(broken.cache)
        waited.append(cancelled_after(broken, draw.uniform(0.1, 1.5)))
    taken = [seconds for seconds in waited if seconds is not None]
    assert taken
    figures.record(
        f"cancels {'while rows are scored' if tried else 'while a model is tried'}", cancel_s=max(taken)
    )
