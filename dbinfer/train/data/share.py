"""What the launching process holds open for its ranks until they have read their rows."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
        with tempfile.TemporaryDirectory(prefix="dbinfer-train-") as folder:
            _write(Path(folder), job, snapshot)
            # All rows lie in files now: no transaction stays open while the ranks train
            snapshot.close()
            yield {**named, SPOOL: folder}
    finally:
        snapshot.close()


def _write(folder: Path, job: TrainJob, snapshot: Snapshot) -> None:
    labels: tuple[str, ...] = ()
    for part, text in (("data", job.data), ("val", job.val)):
        source = find_source(text, snapshot, labels) if is_query(text) else None
        if source is not None:
            # The validation numbers the classes as the training does
            labels = source.labels
            spool.write(folder / part, source)


def find_part(job: TrainJob, part: str, snapshot: Snapshot, labels: tuple[str, ...] = ()) -> Source:
    """Return the source of one part, `data` or `val`, from where the launching process shares it."""
    text = job.data if part == "data" else job.val
    folder = os.environ.get(SPOOL)
    if folder and is_query(text):
        return spool.Spooled.find(Path(folder) / part)
    return find_source(text, snapshot, labels)
