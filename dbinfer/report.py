"""What every verb returns: a frozen dataclass that gives itself as plain JSON values."""

from __future__ import annotations

import math
from base64 import b64encode
from collections.abc import Callable, Mapping, Set
from dataclasses import fields, is_dataclass
from datetime import date
from enum import Enum
from pathlib import PurePath
from types import NoneType
from typing import Any, ClassVar


class Report:
    """Mixin for the dataclasses that verbs return.

    Attributes:
        derived: names of properties that `to_dict` gives beside the fields, for example images_per_second.
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
