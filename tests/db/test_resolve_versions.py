"""While other sessions deploy, activate and drop, no statement mixes versions, and none fails that need not."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import force_parallel, make_images, rows

from dbinfer.models import activate, deploy, drop

pytestmark = pytest.mark.wide

ROUNDS = 12 if os.environ.get("LONG") else 6
QUERY = (
    "SELECT count(DISTINCT r[1]), min(r[1]), count(*) "
    "FROM (SELECT dbinfer.predict(img, 'moving') r FROM public.many OFFSET 0) x"
)


@pytest.fixture(scope="module", autouse=True)
def folder(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("irs")
    for number in (1, 2):
        deploy(tiny_models.constant(folder, number, "moving"), dsn=dsn)
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        make_images(connection, "many", [tiny_models.file(tiny_models.picture(1, 2, 3))], copies=600)
        try:
            rows(connection, "ALTER TABLE public.many SET (parallel_workers = 2)")
        except psycopg2.Error:  # Greenplum: no parallel workers
            connection.rollback()
    return folder


class Scorer(threading.Thread):
    """Scores in a loop in a session of its own until told to stop."""

    def __init__(self, dsn: str, parallel: bool) -> None:
        super().__init__()
        self.dsn, self.parallel = dsn, parallel
        self.stop = threading.Event()
        self.seen: list[tuple[int, float, int]] = []
        self.error: Exception | None = None

    def run(self) -> None:
        with closing(psycopg2.connect(self.dsn)) as connection:
            connection.autocommit = True
            try:
                if self.parallel:
                    force_parallel(connection)
                while not self.stop.is_set():
                    self.seen += rows(connection, QUERY)
            except Exception as err:
                self.error = err


@pytest.mark.parametrize(
    "parallel",
    [
        pytest.param(
            True, marks=pytest.mark.postgres_only("Greenplum has no parallel workers"), id="parallel"
        ),
        pytest.param(False, id="one process"),
    ],
)
def test_no_statement_mixes_versions(dsn: str, folder: Path, parallel: bool) -> None:
    scorer = Scorer(dsn, parallel)
    scorer.start()
    try:
        for turn in range(ROUNDS):
            activate(f"moving@{turn % 2 + 1}", dsn)
            done = deploy(tiny_models.constant(folder, 10 + turn + 100 * parallel, "moving"), dsn=dsn)
            seen = len(scorer.seen)
            while len(scorer.seen) == seen and scorer.is_alive():
                scorer.join(0.01)
            activate("moving@1", dsn)
            drop(f"moving@{done.version}", dsn=dsn)
    finally:
        scorer.stop.set()
        scorer.join()
    assert scorer.error is None
    assert len(scorer.seen) >= ROUNDS
    assert {versions for versions, _, _ in scorer.seen} == {1}
    assert {count for _, _, count in scorer.seen} == {600}
    assert len({number for _, number, _ in scorer.seen}) > 3
