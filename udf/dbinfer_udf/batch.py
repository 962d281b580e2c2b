"""Scores rows in batches: for small networks one inference of many images costs half of many inferences.

A row function cannot know which row is the last one. So each call returns either the results of a whole batch, or the
rows that wait in an unfinished one; SQL collects the first and keeps, of each process, the last of the second.
"""

from __future__ import annotations

from typing import Iterable, List, Optional, Tuple

import numpy as np

from .batch_rows import PER_LABEL, WAITING_BYTES, Collected, no_id, rows_for, waiting
from .errors import ImageError
from .model import Model
from .postprocess import quoted, scores

Row = Tuple[str, Optional[int], Optional[bytes], str]


def batch(model: Model, _img: bytes, row: Row) -> bytes:
    """Take (scan, id, image, on_error) into this scan's batch; see Batch.add."""
    found = model.batch
    # another scan: rows that a cancelled statement has left belong to nobody
    if found is None or found.scan != row[0]:
        model.batch = found = Batch(model, row[0], rows_for(row[2]))
    result: bytes = found.add(row[1], row[2], row[3])
    return result


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
        self._collected = Collected()
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
            raise no_id()
        slot = self._put(img, on_error)
        self._ids.append(str(row))
        self._slots.append(slot)
        self._waiting += waiting(row, img if slot >= 0 else None)
        # the first image chose the size, and later ones may be larger
        if len(self._ids) < self.size and len(self._waiting) < 2 * WAITING_BYTES:
            return bytes(self._waiting)
        whole = self._literal()
        self._clear()
        return whole

    def whole(self, rows: Iterable[Tuple[int, Optional[bytes]]], on_error: str) -> bytes:
        """Return the literal of rows that were collected elsewhere, at most `size` of them; see add."""
        self._clear()
        # who collects them counts them, too
        self._collected = Collected()
        for row, img in rows:
            self._slots.append(self._put(img, on_error))
            self._ids.append(str(row))
        return self._literal()

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
        self._collected.add(len(chosen), sum([widths[c] for c in chosen if 0 <= c < len(widths)]))

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
