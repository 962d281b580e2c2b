"""problem() says why an image has no result, in the words of the error, without a second pass through the network."""

from __future__ import annotations

import pytest
import tiny_models
from asking import ask, make_images, rows
from psycopg2 import Error
from psycopg2.extensions import connection as Connection
from test_image_bad_input import BAD, GOOD

from dbinfer.models import deploy

BOTH = "SELECT (dbinfer.classify(img, 'colours', 'null')).label, dbinfer.problem(img, 'colours') FROM images"
COUNTED = "SELECT coalesce(sum(rows), 0)::integer FROM dbinfer.usage WHERE model = %s"


@pytest.fixture(scope="module", autouse=True)
def models(dsn: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    folder = tmp_path_factory.mktemp("irs")
    for made in (tiny_models.colour_classifier, tiny_models.red_mask):
        deploy(made(folder), dsn=dsn)


def sentence(db: Connection, img: bytes) -> str:
    """Return what the error says."""
    with pytest.raises(Error) as caught:
        ask(db, "SELECT dbinfer.classify(%s, 'colours')", img)
    return str(caught.value.diag.message_primary).removeprefix("dbinfer: ")


def test_each_in_the_words_of_its_error(db: Connection, subtests: pytest.Subtests) -> None:
    for kind, (img, _, _) in BAD.items():
        with subtests.test(kind=kind):
            assert ask(db, "SELECT dbinfer.problem(%s, 'colours')", img) == sentence(db, img)


def test_good_ones_and_none_have_no_problem(db: Connection) -> None:
    assert rows(db, "SELECT dbinfer.problem(%s), dbinfer.problem(NULL)", GOOD) == [(None, None)]


def test_of_a_whole_table_beside_its_results(db: Connection) -> None:
    images: list[bytes | None] = [GOOD, *(img for img, _, _ in BAD.values()), None, GOOD]
    make_images(db, "images", images)
    found = rows(db, BOTH)
    assert sum(label is not None for label, _ in found) == 2
    assert sorted(problem for _, problem in found if problem) == sorted(
        sentence(db, img) for img, _, _ in BAD.values()
    )
    assert all(label is None or problem is None for label, problem in found)


@pytest.mark.parametrize(
    "query",
    [
        BOTH,
        "SELECT dbinfer.problem(img, 'colours'), dbinfer.classify(img, 'colours', 'null') FROM images",
        "SELECT dbinfer.problem(img, 'redness'), dbinfer.segment(img, 'redness', 'null') FROM images",
    ],
)
def test_a_row_and_its_problem_are_scored_once(db: Connection, query: str) -> None:
    """By the count of dbinfer.usage, which counts passes through the network."""
    model = "redness" if "redness" in query else "colours"
    make_images(db, "images", [GOOD, BAD["text"][0], BAD["cut PNG"][0]], copies=20)
    rows(db, "SELECT dbinfer.set_setting('usage', 'on')")
    try:
        before = ask(db, COUNTED, model)
        assert len(rows(db, query)) == 60
        assert ask(db, COUNTED, model) - before == 60
    finally:
        rows(db, "SELECT dbinfer.set_setting('usage', 'off')")
