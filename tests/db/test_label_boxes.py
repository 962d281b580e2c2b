"""label --boxes: proposals of a detector are corrected, and what comes out is what `train` and `judge` read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest
import tiny_models
import webdriver
from asking import rows
from labelling import opened
from psycopg2.extensions import connection as Connection

import dbinfer
from dbinfer.base.errors import DataError
from dbinfer.images.boxes import unpacked
from dbinfer.train.data import find_source
from dbinfer.train.query import Snapshot

CAT = {"label": "cat", "x": 10.0, "y": 20.0, "width": 30.0, "height": 40.0}
DOG = {"label": "7", "x": 200.0, "y": 90.0, "width": 50.0, "height": 60.0}
ANSWERS = "SELECT id, boxes, proposal, who FROM public.shots_boxes ORDER BY id"


@pytest.fixture
def db(dsn: str) -> Iterator[Connection]:
    """Three images; of the first the model has found two objects, of which one has no label, of the others none."""
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        rows(connection, "CREATE TABLE public.shots (id int PRIMARY KEY, img bytea)")
        rows(connection, "CREATE TABLE public.found (id int, detections dbinfer.detection[])")
        for key in (1, 2, 3):
            img = tiny_models.file(tiny_models.picture(40 * key, 0, 0, (300, 200)))
            rows(connection, "INSERT INTO public.shots VALUES (%s, %s)", key, img)
        found = "ARRAY[ROW('cat', 0, 0.9, 10, 20, 30, 40), ROW(NULL, 7, 0.8, 200, 90, 50, 60)]::dbinfer.detection[]"
        rows(connection, f"INSERT INTO public.found VALUES (1, {found}), (2, '{{}}'), (3, NULL)")
        yield connection
        rows(connection, "DROP TABLE public.shots, public.found; DROP TABLE IF EXISTS public.shots_boxes")


def test_boxes_are_accepted_corrected_and_judged(db: Connection, dsn: str) -> None:
    with opened("public.shots", dsn, todo="public.found", boxes=True, who="anna") as page:
        told = page.ask("/api/work").json
        assert (told["boxes"], told["classes"]) == (True, ["7", "cat"])
        assert [page.ask(f"/api/row/{number}").json["proposal"] for number in range(3)] == [
            [CAT, DOG],
            [],
            None,
        ]
        size = page.ask("/api/image/0").headers
        assert (size["X-Image-Width"], size["X-Image-Height"]) == ("300", "200")
        assert page.ask("/api/row/0", {"boxes": [CAT, DOG]}).status == 200
        bird = {"label": "bird", "x": 1.26, "y": 2, "width": 3, "height": 4, "score": 1, "more": "x"}
        assert page.ask("/api/row/1", {"boxes": [bird]}).status == 200
        late = page.ask("/api/row/1", {"boxes": []})
        assert (late.status, late.json["problem"]) == (409, "anna has labelled it with 1 boxes meanwhile")
    clean = {"label": "bird", "x": 1.3, "y": 2, "width": 3, "height": 4}
    assert rows(db, ANSWERS) == [(1, [CAT, DOG], [CAT, DOG], "anna"), (2, [clean], [], "anna")]
    assert [(report.labelled, report.corrected, report.left) for report in page.reports] == [(2, 1, 1)]
    # judge and train read them as they are
    true = (
        "SELECT b.boxes, f.detections FROM public.shots_boxes b JOIN public.found f USING (id) WHERE id = 1"
    )
    judged = dbinfer.judge(true, dsn)
    assert (judged.true, judged.found, judged.map50_95) == (2, 2, pytest.approx(1))
    with closing(Snapshot(dsn)) as snapshot:
        query = "SELECT i.img, b.boxes, i.id FROM public.shots i JOIN public.shots_boxes b USING (id)"
        source = find_source(query, snapshot)
        assert (source.task, source.labels, source.count()) == ("detection", ("7", "bird", "cat"), 2)
        truths = source.open(range(2)).read(0)[1]
    assert isinstance(truths, bytes)
    assert unpacked(truths).tolist() == [[10, 20, 40, 60, 2], [200, 90, 250, 150, 0]]
    # a label that was given before is a class from then on
    with opened("public.shots", dsn, todo="public.found", boxes=True) as page:
        assert page.ask("/api/work").json["classes"] == ["7", "bird", "cat"]


@pytest.mark.wide
def test_what_is_no_box_is_one_sentence(db: Connection, dsn: str, subtests: pytest.Subtests) -> None:
    options: dict[str, Any] = {"todo": "public.found", "boxes": True, "classes": ("cat",)}
    with opened("public.shots", dsn, **options) as page:
        for given, said in [
            (None, "the boxes of this image are null, but must be a list"),
            ([3], "box 1 of this image is 3, but must be an object"),
            ([CAT, {**CAT, "label": ""}], 'box 2 of this image has the label "", but must have a text'),
            ([{**CAT, "label": "dog"}], "'dog' is none of the classes cat"),
            ([{**CAT, "width": 0}], "box 1 of this image has 0 x 40 pixels, but must have an area"),
            ([{**CAT, "x": "1"}], 'box 1 of this image has the x "1", but must have a number'),
            ([CAT] * 101, "this image has 101 boxes, but an image must not have more than 100"),
        ]:
            with subtests.test(said=said):
                refused = page.ask("/api/row/0", {"boxes": given})
                assert refused.status == 422
                assert refused.json["problem"].startswith(said)
    with pytest.raises(
        DataError, match=r"found has the columns id, detections, but rows to label have rank or class"
    ):
        dbinfer.label("public.shots", dbinfer.LabelOptions(todo="public.found"), dsn)
    # rows that have no proposals; and a table of boxes is none of labels
    rows(db, "CREATE TABLE public.shots_next AS SELECT id, 1 AS rank FROM public.found")
    with pytest.raises(
        DataError, match="shots_boxes has the columns id, boxes, proposal, who, at, not id, label,"
    ):
        dbinfer.label("public.shots", dbinfer.LabelOptions(into="public.shots_boxes"), dsn)
    with opened("public.shots", dsn, boxes=True) as page:
        assert page.ask("/api/row/0").json["proposal"] is None
    rows(db, "DROP TABLE public.shots_next")


@pytest.mark.wide
@pytest.mark.skipif(
    webdriver.find() is None,
    reason="no chromedriver is installed (Debian: apt-get install chromium chromium-driver)",
)
def test_boxes_by_keyboard_alone_and_by_mouse(db: Connection, dsn: str, tmp_path: Path) -> None:
    options: dict[str, Any] = {"todo": "public.found", "boxes": True, "classes": ("cat", "7", "dog")}
    with webdriver.driven(tmp_path) as driver, opened("public.shots", dsn, **options) as page:

        def at(key: int) -> None:
            driver.wait("return document.getElementById('row').textContent", f"Row {key}")
            driver.wait("return !document.querySelector('.waits')")

        driver.go(page.url)
        at(1)
        # a step is a hundredth of the longer side, with Ctrl one pixel
        driver.press("ArrowRight", "ArrowRight", "Control+ArrowDown", "Shift+ArrowLeft", "2")
        driver.press("Tab", "Delete", "n", "Shift+ArrowUp", "Enter")
        at(2)
        assert rows(db, ANSWERS)[0][1] == [
            {"label": "dog", "x": 16, "y": 21, "width": 27, "height": 40},
            {"label": "dog", "x": 112.5, "y": 75, "width": 75, "height": 47},
        ]
        # back: the boxes are as they were left, and without any of them the image shows nothing
        driver.press("Backspace")
        at(1)
        assert rows(db, ANSWERS) == []
        driver.press("x", "x", "Enter")
        at(2)
        assert rows(db, ANSWERS)[0][1] == []
        middle = driver.run(
            "const b = document.getElementById('boxes').getBoundingClientRect(); "
            "return [b.left + b.width / 2, b.top + b.height / 2].map(Math.round)"
        )
        x, y = middle
        driver.drag((x - 100, y - 50), (x + 100, y + 50))
        driver.press("1", "Enter")
        at(3)
        (box,) = rows(db, ANSWERS)[1][1]
        assert box["label"] == "cat"
        assert box["x"] + box["width"] / 2 == pytest.approx(150, abs=1)
        assert box["width"] / box["height"] == pytest.approx(2, abs=0.05)
        # without a label nothing is written; Esc and Tab lead to the buttons
        driver.press("n", "Escape", "Tab")
        assert driver.run("return document.activeElement.id") == "accept"
        assert driver.log() == []
