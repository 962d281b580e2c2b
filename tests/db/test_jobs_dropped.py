"""A model, a table or a right that goes while a job runs: one sentence, whole batches, and the next run goes on."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import psycopg2
import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

from dbinfer.base.errors import DataError
from dbinfer.base.progress import Progress
from dbinfer.models import deploy, drop
from dbinfer.score import ScoreOptions, score

pytestmark = pytest.mark.wide

IMAGE = tiny_models.file(tiny_models.picture(200, 0, 0))
BATCH = 10
ROWS = 2_000  # enough that a change comes before the end
# on Greenplum, where a segment of the running batch may be the first to miss it
FROM_A_SEGMENT = "a version of a model was dropped while this statement ran"


@pytest.fixture(autouse=True)
def images(db: Connection, dsn: str, tmp_path: Path) -> Iterator[None]:
    deploy(tiny_models.colour_classifier(tmp_path), dsn=dsn)
    make_images(db, "images", [IMAGE], copies=ROWS)
    yield
    rows(db, "DROP TABLE IF EXISTS predictions, predictions_errors, images CASCADE")
    if ask(db, "SELECT count(*) FROM dbinfer.models"):
        drop("colours", force=True, dsn=dsn)


def after_two_batches(change: Callable[[], None]) -> Callable[[Progress], None]:
    """Return a callback of a job that makes a change once."""
    done = False

    def progress(event: Progress) -> None:
        nonlocal done
        if event.done >= 2 * BATCH and not done:
            done = True
            change()

    return progress


def run(dsn: str, change: Callable[[], None], model: str | None = None) -> DataError:
    """Run a job that must end with an error after the change, and return the error."""
    options = ScoreOptions(batch=BATCH, connections=1, model=model)
    with pytest.raises(DataError) as caught:
        score(options=options, dsn=dsn, progress=after_two_batches(change))
    assert "\n" not in caught.value.message
    return caught.value


def forget(model: str, dsn: str) -> None:
    drop(model, force=True, dsn=dsn)


def whole_batches(db: Connection) -> int:
    """Return how many rows are stored: each once, all of one version, none half scored, none called bad."""
    found = "SELECT count(*), count(DISTINCT id), count(DISTINCT version), count(label) FROM predictions"
    (counts,) = rows(db, found)
    assert counts[0] == counts[1] == counts[3]
    assert counts[2] == 1
    assert counts[0] % BATCH == 0
    assert ask(db, "SELECT count(*) FROM predictions_errors") == 0
    assert 0 < counts[0] < ROWS
    return int(counts[0])


def deploy_another_version(dsn: str, folder: Path) -> None:
    before = deploy(tiny_models.colour_classifier(folder), dsn=dsn).version
    # the same network under other labels; the same labels would be the version that is there
    labels = [colour.upper() for colour in tiny_models.COLOURS]
    assert deploy(tiny_models.colour_classifier(folder, labels=labels), dsn=dsn).version == before + 1


def last_job(db: Connection) -> tuple[str, str]:
    (found,) = rows(db, "SELECT state, last_error FROM dbinfer.jobs ORDER BY id DESC LIMIT 1")
    return found[0], found[1]


def test_a_model_that_is_dropped_in_mid_job(db: Connection, dsn: str, tmp_path: Path) -> None:
    error = run(dsn, lambda: forget("colours", dsn))
    assert error.message in ('model "colours" does not exist', FROM_A_SEGMENT)
    assert error.hint
    stored = whole_batches(db)
    assert last_job(db) == ("failed", error.message)
    # deployed again it is another version, which has scored nothing yet
    deploy(tiny_models.colour_classifier(tmp_path), dsn=dsn)
    assert score(dsn=dsn).rows == ROWS
    assert ask(db, "SELECT count(*) FROM predictions") == stored + ROWS


def test_a_version_that_is_dropped_in_mid_job(db: Connection, dsn: str, tmp_path: Path) -> None:
    first = ask(db, "SELECT version FROM dbinfer.models")
    deploy_another_version(dsn, tmp_path)
    error = run(dsn, lambda: forget(f"colours@{first}", dsn), model=f"colours@{first}")
    assert error.message in (f'model "colours" has no version or alias "{first}"', FROM_A_SEGMENT)
    assert error.hint
    whole_batches(db)


def test_another_version_that_is_activated_in_mid_job_waits_for_the_next_one(
    db: Connection, dsn: str, tmp_path: Path
) -> None:
    options = ScoreOptions(batch=BATCH, connections=1)
    change = after_two_batches(lambda: deploy_another_version(dsn, tmp_path))
    assert score(options=options, dsn=dsn, progress=change).rows == ROWS
    assert ask(db, "SELECT count(DISTINCT version) FROM predictions") == 1


def test_a_table_of_results_that_is_dropped_in_mid_job(db: Connection, dsn: str) -> None:
    def change() -> None:
        with closing(psycopg2.connect(dsn)) as other, other:
            rows(other, "DROP TABLE predictions")

    error = run(dsn, change)
    assert "predictions" in error.message
    assert "does not exist" in error.message
    assert last_job(db)[0] == "failed"


def test_a_right_that_is_taken_away_in_mid_job(db: Connection, dsn: str) -> None:
    rows(db, "CREATE ROLE jobs_lose LOGIN PASSWORD 'lose'; GRANT CREATE ON SCHEMA public TO jobs_lose")
    rows(db, "SELECT dbinfer.revoke_model('colours', 'public')")
    rows(db, "SELECT dbinfer.grant_model('colours', 'jobs_lose')")

    def change() -> None:
        with closing(psycopg2.connect(dsn)) as other, other:
            rows(other, "SELECT dbinfer.revoke_model('colours', 'jobs_lose')")

    try:
        error = run(make_dsn(dsn, options="-c role=jobs_lose"), change)
        assert "colours" in error.message
        whole_batches(db)
    finally:
        rows(db, "DROP OWNED BY jobs_lose CASCADE; DROP ROLE jobs_lose")
