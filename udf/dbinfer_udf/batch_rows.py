"""How many rows a batch has, and the text of the rows that wait for one; standard library only."""

from __future__ import annotations

from base64 import b64encode
from typing import Optional

from .errors import UsageError

MOST_ROWS = 32  # digits CNN, microseconds a row of inference: 1 row 30, 8 rows 21, 32 rows 17, 128 rows 17
WAITING_BYTES = 1 << 18  # of image files, which each call returns again
LEAST_ROWS = 4
# SQL collects the results of a scan in one value, which PostgreSQL ends at 1 GB: these are the bytes that it needs for
# each batch, for each row, and for a label (a multiple of 4)
MOST_BYTES, PER_BATCH, PER_ROW, PER_LABEL = (1 << 30) - 1, 120, 16, 4


def rows_for(img: Optional[bytes]) -> int:
    """Return how many rows fit a batch by the size of its first image: a power of two, as each compiles a network."""
    rows = MOST_ROWS
    while rows > 1 and rows * len(img or b"") > WAITING_BYTES:
        rows //= 2
    return rows if rows >= LEAST_ROWS else 1


def waiting(row: int, img: Optional[bytes]) -> bytes:
    """Return a row that waits: the file goes along, because SQL scores row by row what is left of the last batch."""
    return b"%d:%b;" % (row, b64encode(img) if img is not None else b"")


def no_id() -> UsageError:
    """Return the error of a row that cannot be told from others."""
    return UsageError("a row has no id", hint="Every row needs a value in the id column.")


class Collected:
    """Counts what this process alone has returned for a scan."""

    def __init__(self) -> None:
        self._bytes = self._rows = 0

    def add(self, rows: int, label_bytes: int) -> None:
        """Raise as soon as the results are too many; else the statement fails at its very end."""
        self._bytes += PER_BATCH + PER_ROW * rows + label_bytes
        if self._bytes > MOST_BYTES:
            raise UsageError(
                "the results are too large to be collected at once: more than %d rows" % self._rows,
                hint="Make views of parts of the table (WHERE id BETWEEN ...) and classify one after the other into "
                "the same table with dbinfer.classify_into.",
                sqlstate="54000",
            )
        self._rows += rows
