"""JSON without Python's json package, whose import (regular expressions, enums) takes milliseconds."""

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
    # the C functions behind json.loads and json.dumps; another Python may lack them
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
    # leading white space, no JSON at all, or no scanner
    import json

    return json.loads(text)


def dumps(value: Any, sort_keys: bool = False) -> str:
    """Return what json.dumps returns."""
    try:
        return "".join(_encoders[sort_keys](value, 0))
    except Exception:
        pass
    # a value that JSON cannot hold, or no encoder
    import json

    return json.dumps(value, sort_keys=sort_keys)
