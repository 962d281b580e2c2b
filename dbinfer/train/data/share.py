"""What the launching process holds open for its ranks until they have read their rows."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from dbinfer.dsn import resolve
from dbinfer.errors import TrainError
from dbinfer.train.data import find_source, is_query, spool
from dbinfer.train.data.snapshot import VARIABLE, Snapshot
from dbinfer.train.data.source import Source
from dbinfer.train.options import TrainJob

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
                f"{part}={spool.path_of(files.enter_context(spool.write(source)))}"
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
        return spool.Spooled.find(dict(path.split("=") for path in paths.split(","))[part])
    return find_source(text, snapshot, labels)
