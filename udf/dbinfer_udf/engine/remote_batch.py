"""The rows of a scan that wait in a backend until a whole batch goes to the engine."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Tuple

from ..batch_rows import PER_LABEL, WAITING_BYTES, Collected, no_id, rows_for, waiting
from .errors import RowError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from .wire import Row


class Waiting:
    """The unfinished batch of one scan in this process.

    Args:
        scan: names the scan.
        img: its first image, by whose size the batch is chosen.
        model_for: returns the model for so many rows at once.
    """

    def __init__(self, scan: str, img: Optional[bytes], model_for: Callable[[int], Any]) -> None:
        self.scan = scan
        self.model = model_for(rows_for(img))
        # 1 where the network cannot take a batch
        self.size: int = self.model.facts["rows"]
        self._collected = Collected()
        self._clear()

    def _clear(self) -> None:
        self._rows: List[Row] = []
        self._text = bytearray()

    def text(self) -> bytes:
        """Return `id:base64;` of the rows that wait."""
        return bytes(self._text)

    def add(
        self, number: Optional[int], img: Optional[bytes], on_error: str
    ) -> Optional[Tuple[bool, List[Row]]]:
        """Take a row; return whether errors are NULL and the rows where the batch is whole, else None."""
        if number is None:
            raise no_id()
        self._rows.append((number, img))
        self._text += waiting(number, img)
        if len(self._rows) < self.size and len(self._text) < 2 * WAITING_BYTES:
            return None
        rows = self._rows
        self._clear()
        return on_error == "null", rows

    def results(self, null: bool, rows: List[Row]) -> bytes:
        """Return the literal of a whole batch; a row that ends the worker gives NULL where bad images do."""
        try:
            found: bytes = self.model.ask("rows", b"", (null, rows))
            return found
        except RowError:
            if not null:
                raise
        # one of them did it: alone they tell which
        kept = [(number, img if self._survives(number, img) else None) for number, img in rows]
        found = self.model.ask("rows", b"", (null, kept))
        return found

    def _survives(self, number: int, img: Optional[bytes]) -> bool:
        try:
            self.model.ask("rows", b"", (True, [(number, img)]))
        except RowError:
            return False
        return True

    def count(self, literal: bytes, rows: int) -> bytes:
        """Return the literal of a whole batch, unless all that was returned is too large to be collected."""
        labels = literal.split(b'","')[2]
        self._collected.add(rows, len(labels) + PER_LABEL * rows)
        return literal
