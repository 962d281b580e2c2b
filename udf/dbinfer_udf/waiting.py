"""The rows of an unfinished batch as they leave the backend, how many a batch has and how many SQL can collect."""

from __future__ import annotations

from base64 import b64encode
from typing import List, Optional, Tuple

from .errors import UsageError

MOST_ROWS = 32  # digits CNN, microseconds a row of inference: 1 row 30, 8 rows 21, 32 rows 17, 128 rows 17
WAITING_BYTES = 1 << 18  # of image files, which each call returns again
LEAST_ROWS = 4
# SQL collects the results of a scan in one value, which PostgreSQL ends at 1 GB: these are the bytes that it needs for
# each batch, for each row, and for a label (a multiple of 4)
MOST_BYTES, PER_BATCH, PER_ROW, PER_LABEL = (1 << 30) - 1, 120, 16, 4
Row = Tuple[str, Optional[int], Optional[bytes], str]


def rows_for(img: Optional[bytes]) -> int:
    """Return how many rows fit a batch by the size of its first image: a power of two, as each compiles a network."""
    rows = MOST_ROWS
    while rows > 1 and rows * len(img or b"") > WAITING_BYTES:
        rows //= 2
    return rows if rows >= LEAST_ROWS else 1


def no_id() -> UsageError:
    """Return the error of a row without an id."""
    return UsageError("a row has no id", hint="Every row needs a value in the id column.")


class Collected:
    """Counts what SQL must collect of a scan in this process."""

    def __init__(self) -> None:
        self._bytes = self._rows = 0

    def add(self, rows: int, label_bytes: int) -> None:
        """Raise as soon as the results of this process alone are too many; else the statement fails at its very end."""
        self._bytes += PER_BATCH + PER_ROW * rows + label_bytes
        if self._bytes > MOST_BYTES:
            raise UsageError(
                "the results are too large to be collected at once: more than %d rows" % self._rows,
                hint="Make views of parts of the table (WHERE id BETWEEN ...) and classify one after the other into "
                "the same table with dbinfer.classify_into.",
                sqlstate="54000",
            )
        self._rows += rows


class Waiting:
    """Rows that wait in a backend until they are a batch for the engine; batch.Batch does the same with pixels.

    Args:
        scan: names the scan; another one starts with an empty batch.
        size: rows of a whole batch.
        asked: rows that were asked for, which the network may not take.
    """

    def __init__(self, scan: str, size: int, asked: int) -> None:
        self.scan = scan
        self.size = size
        self.asked = asked
        self.collected = Collected()
        self._clear()

    def _clear(self) -> None:
        self._rows: List[Tuple[int, Optional[bytes]]] = []
        self._text = bytearray()

    def add(self, row: Optional[int], img: Optional[bytes]) -> bytes:
        """Take a row; return `id:base64;` of all rows that wait, nothing once they are a whole batch.

        Raises:
            UsageError: no id.
        """
        if row is None:
            raise no_id()
        self._rows.append((row, img))
        self._text += b"%d:%b;" % (row, b"" if img is None else b64encode(img))
        # the first image chose the size, and later ones may be larger
        whole = len(self._rows) >= self.size or len(self._text) >= 2 * WAITING_BYTES
        return b"" if whole else bytes(self._text)

    def take(self) -> List[Tuple[int, Optional[bytes]]]:
        """Return the rows, which wait no longer."""
        taken = self._rows
        self._clear()
        return taken
