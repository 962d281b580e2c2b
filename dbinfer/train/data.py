"""Where the images of a training come from, and one state of the database for all its ranks.

The launching process exports its snapshot and keeps that transaction open until every rank has read its rows; a rank
imports it. Greenplum's pg_export_snapshot exports the coordinator's part only: an importing session saw rows that were
committed later. So there one process reads everything, in one transaction.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from dbinfer.base.errors import TrainError
from dbinfer.database.connection import resolve
from dbinfer.train.datasets import Digits, Published, Strokes, Written, read_folder
from dbinfer.train.options import TrainJob
from dbinfer.train.query import Query, Snapshot
from dbinfer.train.source import Source, Spooled, path_of, write

QUERY = re.compile(r"^\s*(select|with|table|values)\b", re.IGNORECASE)


def is_query(data: str) -> bool:
    """Return whether --data is SQL."""
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
        return Digits()
    if name in ("strokes", "written") and (not count or (count.isdigit() and int(count) > 0)):
        kind = Strokes if name == "strokes" else Written
        return kind(size=int(count)) if count else kind()
    if data == "mnist" or (name == "cifar10" and count):
        return Published(name, count)
    if is_query(data):
        return Query.find(data, snapshot or Snapshot(""), labels)
    return read_folder(Path(data), labels)


# Environment variables: the snapshot that ranks import, and the files with the rows for the ranks of this host
SNAPSHOT, SPOOL = "DBINFER_TRAIN_SNAPSHOT", "DBINFER_TRAIN_SPOOL"


@contextmanager
def held_for_ranks(job: TrainJob) -> Iterator[dict[str, str]]:
    """Yield the environment variables by which the ranks find one state of the data; it ends with the block.

    Raises:
        TrainError: the server cannot share a snapshot between processes, and the ranks are on several hosts.
    """
    if not (is_query(job.data) or is_query(job.val)):
        yield {}
        return
    dsn = resolve(job.dsn)
    named = {"DBINFER_DSN": dsn} if dsn else {}
    snapshot = Snapshot(dsn)
    try:
        if not snapshot.on_segments:
            yield {**named, SNAPSHOT: snapshot.export()}
            return
        if job.hosts:
            raise TrainError(
                "ranks on several hosts cannot share a snapshot of this database: Greenplum does not export any",
                "Leave out --hosts, or train from a folder that all hosts share.",
            )
        with ExitStack() as files:
            paths = [
                f"{part}={path_of(files.enter_context(write(source)))}"
                for part, source in _queries(job, snapshot)
            ]
            # All rows lie in files now: no transaction stays open while the ranks train
            snapshot.close()
            yield {**named, SPOOL: ",".join(paths)}
    finally:
        snapshot.close()


def _queries(job: TrainJob, snapshot: Snapshot) -> Iterator[tuple[str, Source]]:
    labels = job.settled_labels
    for part, text in (("data", job.data), ("val", job.val)):
        if is_query(text):
            source = find_source(text, snapshot, labels)
            # The validation's classes have the numbers of the training's
            labels = source.labels
            yield part, source


def find_part(job: TrainJob, part: str, snapshot: Snapshot, labels: tuple[str, ...] = ()) -> Source:
    """Return the source of one part, `data` or `val`, from wherever the launching process shares it."""
    text = job.data if part == "data" else job.val
    if is_query(text) and (paths := os.environ.get(SPOOL)):
        return Spooled.find(dict(path.split("=") for path in paths.split(","))[part])
    return find_source(text, snapshot, labels)


def snapshot_of_this_rank(dsn: str) -> Snapshot:
    """Return the snapshot that the launching process exported; a new one where there is no such process."""
    return Snapshot(dsn, os.environ.get(SNAPSHOT, ""))
