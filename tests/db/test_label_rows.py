"""label: rows are shown, answered, taken back, skipped and gone on with, over real HTTP."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from typing import Any

import cv2
import numpy as np
import psycopg2
import pytest
import tiny_models
from asking import role, rows
from labelling import Page, address, opened
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import make_dsn

import dbinfer
from dbinfer.base.errors import DataError, UsageError

TODO = [(3, 1, "no", 0.51), (1, 2, "yes", 0.52), (2, 3, None, None)]


@pytest.fixture(scope="module")
def db(dsn: str) -> Iterator[Connection]:
    with closing(psycopg2.connect(dsn)) as connection:
        connection.autocommit = True
        yield connection


@pytest.fixture
def scans(db: Connection) -> Iterator[None]:
    """Three images, of which the second is none, and what `next` would say of them."""
    rows(db, "CREATE TABLE public.scans (id int PRIMARY KEY, img bytea, label text)")
    for key, img in {
        1: tiny_models.file(tiny_models.picture(250, 0, 0)),
        2: b"\x89PNG no",
        3: None,
        9: None,
    }.items():
        rows(db, "INSERT INTO public.scans VALUES (%s, %s, %s)", key, img, "yes" if key == 9 else None)
    big = np.zeros((2000, 3000, 3), np.uint8)
    rows(db, "UPDATE public.scans SET img = %s WHERE id = 3", tiny_models.file(big, "JPEG"))
    rows(db, "CREATE TABLE public.scans_next (id int, rank int, proposal text, score real)")
    for row in TODO:
        rows(db, "INSERT INTO public.scans_next VALUES (%s, %s, %s, %s)", *row)
    yield
    rows(
        db,
        "DROP TABLE public.scans, public.scans_next; DROP TABLE IF EXISTS public.scans_labels, public.mine",
    )


def labels(db: Connection) -> list[tuple[Any, ...]]:
    return rows(db, "SELECT id, label, proposal, who FROM public.scans_labels ORDER BY at")


def test_rows_are_accepted_corrected_taken_back_and_gone_on_with(
    db: Connection, dsn: str, scans: None
) -> None:
    with opened("public.scans", dsn, who="anna") as page:
        told = page.ask("/api/work").json
        assert (told["rows"], told["classes"], told["who"], told["open"]) == (3, ["no", "yes"], "anna", True)
        first = page.ask("/api/row/0").json
        assert first == {"key": "3", "proposal": "no", "score": pytest.approx(0.51, abs=1e-6), "answer": None}
        assert page.give(0, "no").status == 200
        wrong = page.give(1, "no").json
        assert labels(db) == [(3, "no", "no", "anna"), (1, "no", "yes", "anna")]
        # a connection that was lost after the commit: to try again is no conflict
        assert page.give(1, "no").json == wrong
        # it is in the database, so another page goes on where this one is
        with opened("public.scans", dsn) as other:
            assert other.ask("/api/work").json["rows"] == 1
        assert page.ask("/api/row/1", {"undo": wrong["at"]}).status == 200
        assert labels(db) == [(3, "no", "no", "anna")]
        again = page.ask("/api/row/1", {"undo": wrong["at"]})
        assert (again.status, again.json["problem"]) == (
            410,
            "the answer of anna is not in public.scans_labels any more",
        )
        assert page.give(1, "maybe").status == 200
    (report,) = page.reports
    assert report == dbinfer.LabelReport("public.scans_labels", rows=3, labelled=2, corrected=1, left=1)
    (at,) = rows(
        db, "SELECT at BETWEEN now() - interval '1 hour' AND now() FROM public.scans_labels WHERE id = 1"
    )
    assert at == (True,)


def test_an_image_is_made_anew_and_one_that_cannot_be_is_a_sentence(
    dsn: str, db: Connection, scans: None
) -> None:
    with opened("public.scans", dsn) as page:
        large, small, broken = (page.ask(f"/api/image/{number}") for number in range(3))
        assert (large.headers["Content-Type"], small.headers["Content-Type"]) == ("image/jpeg", "image/png")
        shape = cv2.imdecode(np.frombuffer(large.body, np.uint8), cv2.IMREAD_COLOR).shape
        assert shape == (1067, 1600, 3)
        assert (tiny_models.pixels(small.body)[0, 0] == [250, 0, 0]).all()
        assert broken.status == 422
        assert broken.json["problem"].startswith("the image is cut off")
        rows(db, "UPDATE public.scans SET img = NULL WHERE id = 3")
        assert page.ask("/api/image/0").json["problem"] == "the row has no image"
        rows(db, "DELETE FROM public.scans WHERE id = 3")
        assert page.ask("/api/image/0").json["problem"] == "public.scans has no such row any more"


def test_of_two_people_the_first_one_labels_a_row(db: Connection, dsn: str, scans: None) -> None:
    with opened("public.scans", dsn, who="anna") as page, opened("public.scans", dsn, who="ben") as other:
        assert other.give(0, "yes").status == 200
        assert page.ask("/api/row/0").json["answer"]["who"] == "ben"
        late = page.give(0, "no")
        assert late.status == 409
        assert late.json["problem"] == "ben has labelled it 'yes' meanwhile"
        # nor does anybody take back what another has said
        assert page.ask("/api/row/0", {"undo": late.json["answer"]["at"]}).status == 410
        assert labels(db) == [(3, "yes", "no", "ben")]
    assert [report.left for report in (*page.reports, *other.reports)] == [2, 2]


@pytest.mark.wide
def test_only_the_classes_that_were_named(dsn: str, scans: None) -> None:
    with opened("public.scans", dsn, classes=("<script>", "no")) as page:
        assert page.ask("/api/work").json["classes"] == ["<script>", "no"]
        refused = page.give(0, "yes")
        assert (refused.status, refused.json["problem"]) == (422, "'yes' is none of the classes <script>, no")
        assert page.give(0, "<script>").status == 200


@pytest.mark.wide
def test_ctrl_c_ends_the_command_with_what_was_done(dsn: str, scans: None) -> None:
    command = [sys.executable, "-m", "dbinfer", "label", "public.scans", "--json", "--dsn", dsn]
    with subprocess.Popen(command, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stderr
        page = Page(address(process.stderr.readline()))
        assert page.give(1, "yes").status == 200
        process.send_signal(signal.SIGINT)
        said, wrong = process.communicate(timeout=60)
    told = {"into": "public.scans_labels", "rows": 3, "labelled": 1, "corrected": 0, "left": 2}
    assert (process.returncode, wrong, json.loads(said)) == (0, "", told)


@pytest.mark.wide
def test_results_of_a_job_are_rows_to_label(dsn: str, db: Connection, scans: None, tmp_path: Any) -> None:
    """The latest version's, the least certain first; the labels are the model's."""
    dbinfer.deploy(tiny_models.probability(tmp_path, "reds", labels=["blue", "red"]), dsn=dsn)
    rows(db, "UPDATE public.scans SET img = (SELECT img FROM public.scans WHERE id = 1) WHERE id > 1")
    dbinfer.score("public.scans", "public.mine", dbinfer.ScoreOptions(model="reds"), dsn)
    with opened("public.scans", dsn, todo="public.mine") as page:
        assert page.ask("/api/work").json["classes"] == ["blue", "red", "yes"]
        assert [page.ask(f"/api/row/{number}").json["key"] for number in range(4)] == ["1", "2", "3", "9"]
        assert page.ask("/api/row/3").json["proposal"] == "red"
    rows(db, "DROP TABLE public.mine_errors")


@pytest.mark.wide
def test_keys_and_names_that_are_strange(db: Connection, dsn: str) -> None:
    rows(db, 'CREATE TABLE public."odd %s" (a text, "b %s" int, "im{}g" bytea, PRIMARY KEY (a, "b %s"))')
    rows(db, 'CREATE TABLE public."odd %s_next" (a text, "b %s" int, rank int, proposal text)')
    for number, key in enumerate(["x", "%s", "{y}", "'z"]):
        rows(db, 'INSERT INTO public."odd %%s" VALUES (%s, %s, NULL)', key, number)
        rows(db, 'INSERT INTO public."odd %%s_next" VALUES (%s, %s, %s, %s)', key, number, number, "%s{}")
    with opened('public."odd %s"', dsn, column='"im{}g"', who="%s'") as page:
        for number in range(4):
            assert page.give(number, "%s{}'").status == 200
        assert page.ask("/api/row/2").json["key"] == "{y}, 2"
    found = rows(db, 'SELECT a, "b %s", label, proposal, who FROM public."odd %s_labels" ORDER BY "b %s"')
    assert found[1] == ("%s", 1, "%s{}'", "%s{}", "%s'")
    assert len(found) == 4


def test_who_may_not_read_or_write_hears_it_at_once(db: Connection, dsn: str, scans: None) -> None:
    with role(db) as name:
        rows(db, "RESET ROLE")
        mine = make_dsn(dsn, options=f"-c role={name}")
        rows(db, f"GRANT SELECT ON public.scans_next TO {name}")
        rows(db, "REVOKE CREATE ON SCHEMA public FROM PUBLIC")  # as it is since PostgreSQL 15
        for given, said in [
            (f"GRANT SELECT ON public.scans TO {name}", "permission denied for table scans"),
            (f"GRANT CREATE ON SCHEMA public TO {name}", "permission denied for schema public"),
        ]:
            with pytest.raises(DataError, match=said) as caught, opened("public.scans", mine):
                pass
            assert ("in a schema of your own" in caught.value.hint) == ("schema" in said)
            rows(db, given)
        with opened("public.scans", mine) as page:
            # the one who logged in, not the role that acts
            assert page.ask("/api/work").json["who"] == rows(db, "SELECT session_user")[0][0]
            rows(db, f"REVOKE INSERT ON public.scans_labels FROM {name}")
            refused = page.give(0, "no")
            assert (refused.status, refused.json["problem"]) == (
                422,
                "permission denied for table scans_labels",
            )
        # what another role owns may run its code with our rights
        with pytest.raises(DataError, match="scans_labels is not written to: table scans_labels belongs to"):
            dbinfer.label("public.scans", None, dsn)


@pytest.mark.wide
def test_mistakes_of_label(db: Connection, dsn: str, scans: None, subtests: pytest.Subtests) -> None:
    rows(db, "CREATE TABLE public.mine AS SELECT id FROM public.scans")
    for options, message in [
        ({"todo": "public.nothing"}, "table public.nothing does not exist\nLet it be made: dbinfer next"),
        ({"todo": "public.mine"}, "public.mine has the columns id, but rows to label have rank or class"),
        ({"column": "photo"}, "table public.scans has no column 'photo'"),
        (
            {"into": "public.mine"},
            "table public.mine has the columns id, not id, label, proposal, who, at, so",
        ),
        ({"key": "rank"}, "table public.scans has no column 'rank'"),
    ]:
        with subtests.test(message=message), pytest.raises(DataError) as caught:
            dbinfer.label("public.scans", dbinfer.LabelOptions(**options), dsn)  # type: ignore[arg-type]
        assert str(caught.value).startswith(message)
    rows(db, "INSERT INTO public.scans_next SELECT * FROM public.scans_next")
    with pytest.raises(DataError, match=r"key '\d' is not unique in public.scans_next"):
        dbinfer.label("public.scans", None, dsn)
    rows(db, "DELETE FROM public.scans_next")
    with pytest.raises(DataError, match=r"table public\.scans_next has no rows"):
        dbinfer.label("public.scans", None, dsn)
    with pytest.raises(UsageError, match="classes are a, a, but each must be there once"):
        dbinfer.LabelOptions(classes=("a", "a"))
