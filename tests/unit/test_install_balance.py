"""What doctor says of uneven tables, of hosts with more threads than cores, and of plans that move images."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest

from dbinfer.database.sql import root
from dbinfer.install.balance import CALLS, Host, Spread
from dbinfer.install.balance import check_crowding as crowding
from dbinfer.install.balance import check_motion as motion
from dbinfer.install.balance import check_skew as skew

MB = 1_000_000


def spread(*megabytes: float, table: str = "public.images") -> Spread:
    return Spread(table, {segment: int(size * MB) for segment, size in enumerate(megabytes)})


def test_a_table_on_one_segment_is_named_with_its_cure() -> None:
    found = skew([spread(0, 60, 0), spread(20, 20, 20, table="public.even")])
    assert not found.ok
    assert found.detail == "public.images: segment 1 has 100% of 60.0 MB, 3.0 times its share"
    assert found.hint.startswith("ALTER TABLE public.images SET DISTRIBUTED BY")


def test_tables_that_cost_nothing_are_even(subtests: pytest.Subtests) -> None:
    for sizes in [
        (20, 22, 18),  # as hashing leaves it
        (0.1, 3.0, 0.1),  # uneven, but scored in a moment
        (1400, 1000, 1000),  # under the threshold of 1.5
        (0, 0, 0),
    ]:
        with subtests.test(sizes=sizes):
            found = skew([spread(*sizes)])
            assert (found.ok, found.detail, found.hint) == (
                True,
                "1 tables of images, none of them uneven",
                "",
            )


def test_the_worst_come_first_and_the_rest_are_counted() -> None:
    found = skew([spread(100 + number, 10, 10, table=f"t{number}") for number in range(5)])
    assert found.detail.startswith("t4: segment 0")
    assert found.detail.endswith("; and 2 more")
    assert "ALTER TABLE t4" in found.hint


def test_threads_are_counted_against_cores(subtests: pytest.Subtests) -> None:
    for processes, threads, cores, ok, named in [
        (3, 2, 8, True, False),
        (4, 2, 8, True, False),
        (3, 1, 2, True, True),  # more than cores: named, not wrong
        (16, 1, 8, True, True),
        (17, 1, 8, False, True),
        (16, 1, 2, False, True),
        (3, 8, 8, False, True),
    ]:
        with subtests.test(processes=processes, threads=threads, cores=cores, ok=ok):
            found = crowding(
                [Host("sdw1", processes, threads, cores), Host("sdw2", 1, 1, 8)], "have fewer", {}
            )
            assert (found.ok, found.hint) == (ok, "have fewer" if named else "")
            assert found.detail.startswith(f"sdw1: {processes} processes score at once, ")
            assert "sdw2" not in found.detail


def test_the_engine_keeps_within_the_cores() -> None:
    found = crowding([Host("sdw1", 16, 1, 2)], "have fewer", {"isolation": "always"})
    assert (found.ok, found.hint) == (True, "")
    assert "the engine keeps within the cores" in found.detail


TOKEN = "COALESCE(dbinfer._here('dbinfer:1:62ae611fd667180f'::text, ({0} IS NULL)), dbinfer._admit_segment(NULL::text))"


def call(image: str, model: str = TOKEN) -> str:
    return f"(dbinfer._text('predict'::text, {image}, {model.format(image)}, 'error'::text, 0))::real[]"


def node(kind: str, output: list[str], *parts: dict[str, Any], **facts: Any) -> dict[str, Any]:
    return {"Node Type": kind, "Plan Rows": 60, "Output": output, "Plans": list(parts), **facts}


def test_images_that_move_below_a_call_are_named(subtests: pytest.Subtests) -> None:
    for (kind, where), (image, column) in itertools.product(
        [("Gather Motion", "to one process"), ("Redistribute Motion", "between segments")],
        [
            ("img", "img"),
            ("i.img", "i.img"),
            ('i."a picture, (old)"', 'i."a picture, (old)"'),
            ("decode(i.code, 'base64, or img'::text)", "i.code"),
            ("CASE WHEN (i.id > 0) THEN i.img ELSE NULL::bytea END", "i.img"),
        ],
    ):
        with subtests.test(kind=kind, where=where, image=image, column=column):
            scan = node("Seq Scan", ["label", column])
            found = motion(
                node("Aggregate", [f"json_agg({call(image)})"], node(kind, ["label", column], scan))
            )
            assert not found.ok
            assert found.detail == (
                f"images move before they are scored: {image} {where} ({kind}, of which the planner expects 60 rows)"
            )
            assert "OFFSET 0" in found.hint


def test_images_that_are_scored_where_they_lie(subtests: pytest.Subtests) -> None:
    for output in [
        [f"({call('i.img')})", "i.img"],  # scored below, and selected besides
        [f"(PARTIAL sum(({call('i.img')})[1]))"],
        ["i.id", "i.label"],
        ["length(i.img)"],
    ]:
        with subtests.test(output=output):
            scan = node("Seq Scan", [call("i.img"), "i.img"])
            found = motion(
                node("Aggregate", [f"sum(({call('i.img')})[1])"], node("Gather Motion", output, scan))
            )
            assert (found.ok, found.detail, found.hint) == (True, "images are scored where they lie", "")


def test_a_condition_that_scores_above_a_motion_is_seen() -> None:
    gather = node("Gather Motion", ["i.img"], node("Seq Scan", ["i.img"]))
    assert not motion(
        node("Subquery Scan", ["i.id"], gather, Filter=f"(({call('i.img')})[1] > 0)", Alias="i")
    ).ok


def test_a_renamed_column_has_come_through_the_motion_below() -> None:
    gather = node("Gather Motion", ["images.img"], node("Seq Scan", ["images.img"]))
    assert not motion(node("Subquery Scan", [call("s.picture")], gather, Alias="s")).ok
    # the value of a subquery that is gathered is no image
    number = node("Gather Motion", ["i.id"], **{"Parent Relationship": "InitPlan"})
    assert motion(node("Seq Scan", [call("i.img")], number)).ok


def test_every_function_that_scores_is_known() -> None:
    """Each takes a ticket by its token; the image or its reference is an argument. _rest and _files_page have none."""
    scoring = {path.stem: path.read_text() for path in (root() / "resolve").glob("_*.sql")}
    scoring |= {path.stem: path.read_text() for path in (root() / "batch").glob("_*.sql")}
    places = {
        name: next(
            place
            for place, argument in enumerate(
                re.findall(r"(\w+) \w+", sql.split(f"dbinfer.{name}(")[1].split(")")[0])
            )
            if argument in ("img", "reference")
        )
        for name, sql in scoring.items()
        if re.search(r"ticket\.(run|each)\(", sql) and name not in ("_rest", "_files_page")
    }
    # dbinfer.draw is not inlined where its image is scored, too; _read gets tokens, and takes the tickets of others
    assert places | {"draw": 0, "_read": 0} == CALLS


def test_batches_and_drawings_are_calls_too() -> None:
    for text in (
        f"dbinfer._take('classify'::text, 'scan'::text, (i.id)::bigint, i.img, {TOKEN.format('i.img')}, 'error'::text)",
        "dbinfer.draw(i.img, NULL::dbinfer.detection[], i.mask)",
        f"dbinfer._draw(CASE WHEN (i.mask IS NOT NULL) THEN i.img ELSE NULL::bytea END, i.mask, {TOKEN})",
        f"dbinfer._bytes('segment'::text, i.img, {TOKEN}, 'error'::text, 0)",
    ):
        assert not motion(node("Result", [text], node("Gather Motion", ["i.img"]))).ok, text


def test_a_plan_without_a_call_says_so() -> None:
    found = motion(node("Seq Scan", ["i.img", "'dbinfer._texts'::text"]))
    assert found.ok
    assert "no call" in found.detail
    assert "plpgsql" in found.hint
