"""Where images come from: data that is at hand, folders, SQL queries; the launching process holds it open for its
ranks.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dbinfer.base.errors import TrainError
from dbinfer.database.connection import resolve
from dbinfer.train.data import source as data_source
from dbinfer.train.data.snapshot import VARIABLE, Snapshot
from dbinfer.train.data.source import Samples, Source
from dbinfer.train.options import TrainJob

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
        from dbinfer.train.data.files import Digits

        return Digits()
    if name in ("strokes", "written") and (not count or (count.isdigit() and int(count) > 0)):
        from dbinfer.train.data.files import Strokes, Written

        kind = Strokes if name == "strokes" else Written
        return kind(size=int(count)) if count else kind()
    if data == "mnist" or (name == "cifar10" and count):
        from dbinfer.train.data.files import Published

        return Published(name, count)
    if is_query(data):
        from dbinfer.train.data.query import Query

        return Query.find(data, snapshot or Snapshot(""), labels)
    from dbinfer.train.data.files import read_folder

    return read_folder(Path(data), labels)


SPOOL = "DBINFER_TRAIN_SPOOL"  # tells the ranks of this host where the launching process has put the rows


@contextmanager
def held_for_ranks(job: TrainJob) -> Iterator[dict[str, str]]:
    """Yield the environment variables by which the ranks find one state of the data; it ends with the block.

    Raises:
        TrainError: the server cannot give several processes one snapshot, and they are on several hosts.
    """
    if not (is_query(job.data) or is_query(job.val)):
        yield {}
        return
    dsn = resolve(job.dsn)
    named = {"DBINFER_DSN": dsn} if dsn else {}
    snapshot = Snapshot(dsn)
    try:
        if not snapshot.on_segments:
            yield {**named, VARIABLE: snapshot.export()}
            return
        if job.hosts:
            raise TrainError(
                "ranks on several hosts cannot share a snapshot of this database: Greenplum does not export any",
                "Leave out --hosts, or train from a folder that all hosts share.",
            )
        with ExitStack() as files:
            paths = [
                f"{part}={data_source.path_of(files.enter_context(data_source.write(source)))}"
                for part, source in _queries(job, snapshot)
            ]
            # All rows lie in files now: no transaction stays open while the ranks train
            snapshot.close()
            yield {**named, SPOOL: ",".join(paths)}
    finally:
        snapshot.close()


def _queries(job: TrainJob, snapshot: Snapshot) -> Iterator[tuple[str, Source]]:
    labels: tuple[str, ...] = ()
    for part, text in (("data", job.data), ("val", job.val)):
        if is_query(text):
            source = find_source(text, snapshot, labels)
            # The validation numbers the classes as the training does
            labels = source.labels
            yield part, source


def find_part(job: TrainJob, part: str, snapshot: Snapshot, labels: tuple[str, ...] = ()) -> Source:
    """Return the source of one part, `data` or `val`, from where the launching process shares it."""
    text = job.data if part == "data" else job.val
    if is_query(text) and (paths := os.environ.get(SPOOL)):
        return data_source.Spooled.find(dict(path.split("=") for path in paths.split(","))[part])
    return find_source(text, snapshot, labels)
