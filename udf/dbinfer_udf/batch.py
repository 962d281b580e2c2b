"""Scores rows in batches: for small networks one inference of many images costs half of many inferences.

A row function cannot know which row is the last one. So each call returns either the results of a whole batch, or the
rows that wait in an unfinished one; SQL collects the first and keeps, of each process, the last of the second.
"""

from __future__ import annotations

from base64 import b64encode
from typing import List, Optional, Tuple

import numpy as np

from .errors import ImageError, UsageError
from .model import Model
from .postprocess import quoted, scores

MOST_ROWS = 32  # digits CNN, microseconds a row of inference: 1 row 30, 8 rows 21, 32 rows 17, 128 rows 17
WAITING_BYTES = 1 << 18  # of image files, which each call returns again
LEAST_ROWS = 4
# SQL collects the results of a scan in one value, which PostgreSQL ends at 1 GB: these are the bytes that it needs for
# each batch, for each row, and for a label (a multiple of 4)
MOST_BYTES, PER_BATCH, PER_ROW, PER_LABEL = (1 << 30) - 1, 120, 16, 4
Row = Tuple[str, Optional[int], Optional[bytes], str]


def batch(model: Model, _img: bytes, row: Row) -> bytes:
    """Take (scan, id, image, on_error) into this scan's batch; see Batch.add."""
    found = model.batch
    # another scan: rows that a cancelled statement has left belong to nobody
    if found is None or found.scan != row[0]:
        model.batch = found = Batch(model, row[0], _rows_for(row[2]))
    result: bytes = found.add(row[1], row[2], row[3])
    return result


def _rows_for(img: Optional[bytes]) -> int:
    """Return how many rows fit a batch by the size of its first image: a power of two, as each compiles a network."""
    rows = MOST_ROWS
    while rows > 1 and rows * len(img or b"") > WAITING_BYTES:
        rows //= 2
    return rows if rows >= LEAST_ROWS else 1


class Batch:
    """The unfinished batch of one scan in this process.

    Args:
        scan: names the scan; another one starts with an empty batch.
        size: rows of a whole batch; 1 where the network takes one image only.
    """

    def __init__(self, model: Model, scan: str, size: int) -> None:
        model.require("classification", "classify_table")
        self.scan = scan
        self.model = model
        self.network = model.batch_network(size)
        # not `size`: 1 where the network cannot take a batch
        self.size = self.network.rows
        self._labels = [_label(label) for label in model.manifest.labels]
        self._widths = [PER_LABEL + -(-len(label.encode()) // 4) * 4 for label in model.manifest.labels]
        self._collected = self._returned = 0
        self._clear()

    def _clear(self) -> None:
        self._ids: List[str] = []
        self._slots: List[int] = []
        self._used = 0
        self._waiting = bytearray()

    def add(self, row: Optional[int], img: Optional[bytes], on_error: str) -> bytes:
        """Take a row; return the whole batch's literal of dbinfer._scored, or `id:base64;` of all rows that wait.

        A row without an image, or with a bad one where on_error is 'null', takes no slot of the network's input.

        Raises:
            ImageError: a bad image, where on_error is 'error'.
            UsageError: no id.
        """
        if row is None:
            raise UsageError("a row has no id", hint="Every row needs a value in the id column.")
        slot = self._put(img, on_error)
        self._ids.append(str(row))
        self._slots.append(slot)
        # the file goes along: SQL scores row by row what is left of the last batch
        file = b64encode(img) if slot >= 0 and img is not None else b""
        self._waiting += b"%d:%b;" % (row, file)
        # the first image chose the size, and later ones may be larger
        if len(self._ids) < self.size and len(self._waiting) < 2 * WAITING_BYTES:
            return bytes(self._waiting)
        whole = self._literal()
        self._clear()
        return whole

    def _put(self, img: Optional[bytes], on_error: str) -> int:
        """Decode and resize the image into the next slot of the input; return it, -1 for no image."""
        if img is None:
            return -1
        try:
            image, _header = self.model.decode(img)
        except ImageError:
            if on_error == "null":
                return -1
            raise
        self.model.resize(image, self.network.inputs[self._used])
        self._used += 1
        return self._used - 1

    def _literal(self) -> bytes:
        # without an image in it, the batch needs no inference
        winners, best = self._best() if self._used else ([], [])
        nothing = "NULL"
        labels = self._labels
        chosen = [winners[slot] if slot >= 0 else -1 for slot in self._slots]
        self._count(chosen)
        columns = (
            self._ids,
            [str(c) if c >= 0 else nothing for c in chosen],
            [labels[c] if 0 <= c < len(labels) else nothing for c in chosen],
            # nine digits give the same float32 again
            ["%.9g" % best[slot] if slot >= 0 else nothing for slot in self._slots],
        )
        return ("(%s)" % ",".join('"{%s}"' % ",".join(column) for column in columns)).encode()

    def _count(self, chosen: List[int]) -> None:
        """Raise as soon as the results of this process alone are too many; else the statement fails at its very end."""
        widths = self._widths
        self._collected += PER_BATCH + PER_ROW * len(chosen)
        self._collected += sum([widths[c] for c in chosen if 0 <= c < len(widths)])
        if self._collected > MOST_BYTES:
            raise UsageError(
                "the results are too large to be collected at once: more than %d rows" % self._returned,
                hint="Make views of parts of the table (WHERE id BETWEEN ...) and classify one after the other into "
                "the same table with dbinfer.classify_into.",
                sqlstate="54000",
            )
        self._returned += len(chosen)

    def _best(self) -> Tuple[List[int], List[float]]:
        """Return the best class and its score for each slot in use."""
        self.network.infer()
        used = self.network.output[: self._used]
        manifest = self.model.manifest
        # raw scores need no work per row; a single value is the probability of the second of two classes
        if manifest.activation == "none" and used[0].size > 1:
            table = used.reshape(self._used, -1)
        else:
            table = np.stack([scores(one, manifest.activation, len(manifest.labels)) for one in used])
        winners = table.argmax(axis=1)
        return winners.tolist(), table[np.arange(self._used), winners].tolist()


def _label(label: str) -> str:
    """Return a label as an element of an array within a quoted field of a composite literal."""
    return quoted(label).replace("\\", "\\\\").replace('"', '""')
