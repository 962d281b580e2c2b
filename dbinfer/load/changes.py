"""Which files of a batch are new, which have changed since they were loaded, and which the table has as they are."""

from __future__ import annotations

import hashlib
from collections.abc import Generator, Iterable
from contextlib import closing
from dataclasses import dataclass, field
from typing import NamedTuple

from dbinfer.imagefiles import Found, Outcome, Refused
from dbinfer.load.sources import Outcomes

MD5_BYTES = 16
Compared = Generator[tuple[Outcome, bool], None, None]


class Stored(NamedTuple):
    """What the table knows of a path: the image's bytes, and the file's time, None where it was not kept."""

    size: int
    modified: int | None


@dataclass
class Batch:
    """The files of a batch, by what becomes of them.

    Attributes:
        new: their path is not in the table; suspects: they may have changed; same: they have not.
        twins: other files with a path that one of `new` has.
    """

    new: list[Found] = field(default_factory=list)
    suspects: list[Found] = field(default_factory=list)
    same: list[Found] = field(default_factory=list)
    twins: list[Refused] = field(default_factory=list)


def sort(files: Iterable[Found], known: dict[str, Stored], taken: dict[str, Found], careful: bool) -> Batch:
    """Return the files by what becomes of them.

    Args:
        taken: files of paths that this load has met; new ones are added.
        careful: suspect also files of which only the size is known to be the same.
    """
    batch = Batch()
    for item in files:
        first = taken.setdefault(item.path, item)
        if first is not item:
            if (first.file, first.place) != (item.file, item.place):
                reason = f"has the same path as {first.file}: {item.path}; use --base"
                batch.twins.append(Refused(str(item.file), reason))
        elif item.path not in known:
            batch.new.append(item)
        elif _is_same(item, known[item.path], careful):
            batch.same.append(item)
        else:
            batch.suspects.append(item)
    return batch


def _is_same(item: Found, stored: Stored, careful: bool) -> bool:
    if item.size != stored.size:
        return item.size < 0  # it cannot even be looked at: what was loaded stays
    if item.modified is None or stored.modified is None:
        return not careful
    return item.modified == stored.modified


def differing(outcomes: Outcomes, digests: dict[str, bytes]) -> Compared:
    """Yield each file with whether its content is another than the table's."""
    with closing(outcomes):  # the threads that read ahead end now, not some time later
        for outcome in outcomes:
            if isinstance(outcome, Refused):
                yield outcome, False
            else:
                item, data = outcome
                there = digests.get(item.path, b"")
                # Greenplum 6 has no other hash; nobody is refused anything by it
                kind = "md5" if len(there) == MD5_BYTES else "sha256"
                yield outcome, hashlib.new(kind, data, usedforsecurity=False).digest() != there
