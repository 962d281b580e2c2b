"""What every verb returns: a frozen dataclass that converts itself to plain JSON values, and back."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath
from types import NoneType, UnionType
from typing import Any, ClassVar, Union, get_args, get_origin, get_type_hints


class Report:
    """Mixin for the dataclasses that verbs return.

    Attributes:
        derived: names of properties that `to_dict` returns besides the fields, for example images_per_second.
    """

    derived: ClassVar[tuple[str, ...]] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the fields and the derived values as `json.dumps` takes them."""
        names = [field.name for field in fields(self)]  # type: ignore[arg-type]
        return {name: plain(getattr(self, name)) for name in (*names, *self.derived)}


def plain(value: Any) -> Any:
    """Return a value as plain JSON: paths and dates as text, bytes in base64, NaN as None."""
    for kinds, change in FORMS:
        if isinstance(value, kinds):
            return change(value)
    if hasattr(value, "to_dict"):
        return plain(value.to_dict())
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in fields(value)}
    if hasattr(value, "tolist"):  # numpy's arrays and scalars, without importing numpy
        return plain(value.tolist())
    raise TypeError(f"a {type(value).__name__} has no form in JSON")


def restored(kind: Any, value: Any) -> Any:
    """Return the value that `plain` made JSON of; every part is checked, because another process may have written it.

    Raises:
        ValueError: it is no such value.
    """
    origin, parts = get_origin(kind), get_args(kind)
    if origin in (Union, UnionType):
        return (
            None if value is None else restored(next(part for part in parts if part is not NoneType), value)
        )
    if origin is tuple and isinstance(value, list):
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis else parts
        return tuple(restored(part, one) for part, one in zip(kinds, value, strict=True))
    if origin in (dict, Mapping) and isinstance(value, dict):
        return {key: restored(parts[1], one) for key, one in value.items()}
    if is_dataclass(kind) and isinstance(kind, type) and isinstance(value, dict):
        return _dataclass(kind, value)
    # a bool is an int for Python, and an int a float for JSON
    known = type(value) is kind or (kind is float and type(value) is int)
    if not known and not (isinstance(value, str) and issubclass(kind, PurePath)):
        raise ValueError(f"{value!r} is no {kind}")
    return value if known else kind(value)


def _dataclass(kind: type, values: dict[str, Any]) -> Any:
    if hasattr(kind, "from_dict"):
        return kind.from_dict(values)
    kinds = get_type_hints(kind)
    return kind(**{field.name: restored(kinds[field.name], values.get(field.name)) for field in fields(kind)})


FORMS: tuple[tuple[Any, Callable[[Any], Any]], ...] = (
    (Enum, lambda value: plain(value.value)),  # first: an enum may be a str or an int, too
    (bool | int | str | NoneType, lambda value: value),
    (float, lambda value: value if math.isfinite(value) else None),  # JSON has no NaN and no infinity
    (date, lambda value: value.isoformat()),
    (PurePath, str),
    (bytes | bytearray, lambda value: b64encode(value).decode()),
    (Mapping, lambda value: {str(key): plain(part) for key, part in value.items()}),
    ((list, tuple, Set), lambda value: [plain(part) for part in value]),
)
