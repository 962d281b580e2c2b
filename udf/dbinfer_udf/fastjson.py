"""JSON without Python's package of that name: its import (regular expressions, enums) takes milliseconds."""

from __future__ import annotations

TYPE_CHECKING = False  # typing's own takes milliseconds to import, too
if TYPE_CHECKING:
    from typing import Any


class _Plain:
    """How the scanner reads: as json.loads does."""

    strict = True
    object_hook = object_pairs_hook = array_hook = None
    parse_float, parse_int, parse_constant = float, int, float


try:
    # what json.loads and json.dumps call, in C; another Python may do without
    import _json

    _scan: Any = _json.make_scanner(_Plain)  # type: ignore[arg-type]
    _encoders: Any = [
        _json.make_encoder(None, None, _json.encode_basestring_ascii, None, ": ", ", ", sort, False, True)  # type: ignore[arg-type]
        for sort in (False, True)
    ]
except (ImportError, AttributeError, TypeError):
    _scan = _encoders = None


def loads(text: str) -> Any:
    """Return what json.loads returns."""
    try:
        value, end = _scan(text, 0)
        if end == len(text):
            return value
    except Exception:
        pass
    # white space, what is no JSON at all, or no scanner
    import json

    return json.loads(text)


def dumps(value: Any, sort_keys: bool = False) -> str:
    """Return what json.dumps returns."""
    try:
        return "".join(_encoders[sort_keys](value, 0))
    except Exception:
        pass
    # what cannot be, or no encoder
    import json

    return json.dumps(value, sort_keys=sort_keys)
