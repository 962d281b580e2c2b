"""Where images come from: data that is at hand, folders, SQL queries."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

from dbinfer.train.data.source import Samples, Source

if TYPE_CHECKING:
    from dbinfer.train.data.snapshot import Snapshot

__all__ = ["Samples", "Source", "find_source", "is_query"]

QUERY = re.compile(r"^\s*(select|with|table|values)\b", re.IGNORECASE)


def is_query(data: str) -> bool:
    """Tell whether --data is SQL."""
    return QUERY.match(data) is not None


def find_source(data: str, snapshot: Snapshot | None = None, labels: tuple[str, ...] = ()) -> Source:
    """Return the source that --data names.

    Args:
        data: digits, strokes, strokes:COUNT, written, written:COUNT, mnist, cifar10:ARCHIVE, a SQL query or a folder.
        snapshot: the state of the database that a SQL query reads.
        labels: where given, the classes that must be used (those of the training part, for validation).

    Raises:
        DataError: there is no such data, or it holds no images, or masks are missing.
    """
    name, _, count = data.partition(":")
    if data == "digits":
        from dbinfer.train.data.builtin import Digits

        return Digits()
    if name in ("strokes", "written") and (not count or (count.isdigit() and int(count) > 0)):
        from dbinfer.train.data.builtin import Strokes, Written

        kind = Strokes if name == "strokes" else Written
        return kind(size=int(count)) if count else kind()
    if data == "mnist" or (name == "cifar10" and count):
        from dbinfer.train.data.published import Published

        return Published(name, count)
    if is_query(data):
        from dbinfer.train.data.query import Query
        from dbinfer.train.data.snapshot import Snapshot

        return Query.find(data, snapshot or Snapshot(""), labels)
    from dbinfer.train.data.folder import read_folder

    return read_folder(Path(data), labels)
