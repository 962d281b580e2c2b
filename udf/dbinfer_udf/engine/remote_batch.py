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

    Raises:
        ImageError: a bad image, or one that ends the worker, with its row; unless `null`.
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
        # one of them did it: alone they tell which
        return [_alone(model, function, null, row) for row in wanted]


def _alone(model: Any, function: str, null: bool, row: Row) -> Any:
    try:
        return _asked(model, function, null, [row])[0]
    except RowError as err:
        if null:
            return None
        raise err.of_row(row[0]) from err


def _asked(model: Any, function: str, null: bool, wanted: Sequence[Row]) -> List[Any]:
    return wire.unpack_results(model.ask("rows", b"", (function, null, wanted)), function, len(wanted))
