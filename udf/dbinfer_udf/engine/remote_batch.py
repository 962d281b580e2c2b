"""Many rows of a scan go to the engine as one request."""

from __future__ import annotations

from . import wire
from .errors import RowError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, List, Sequence

    from .wire import Row


def rows(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    """Return the result of each row; one that ends the worker gives None where bad images do.

    Args:
        model: the engine's model.
    """
    found: List[Any] = []
    # a request may take as long as so many images may
    most = model.facts["rows"]
    for first in range(0, len(wanted), most):
        found += _request(model, function, null, wanted[first : first + most])
    return found


def _request(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    try:
        return _asked(model, function, null, wanted)
    except RowError:
        if not null:
            raise
    # one of them did it: alone they tell which
    kept = [row if _survives(model, function, row) else (row[0], None) for row in wanted]
    return _asked(model, function, null, kept)


def _survives(model: Any, function: str, row: Row) -> bool:
    try:
        _asked(model, function, True, [row])
    except RowError:
        return False
    return True


def _asked(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    return wire.unpack_results(model.ask("rows", b"", (function, null, wanted)), function)
