"""The coefficients that are shipped predict statements that they were not fitted to; both are measured data."""

from __future__ import annotations

import json

import pytest

from dbinfer.plan.cost import POINTS, shipped
from dbinfer.plan.points import Point, point_of

WITHIN = 0.15

ALL = [point_of(values) for values in json.loads(POINTS.read_text())]
HELD = [each for each in ALL if each.held]


def title(each: Point) -> str:
    return f"{each.network.name} {each.network.precision}, {each.kind}, {len(each.rows)} of {each.server}"


@pytest.mark.parametrize("each", HELD, ids=title)
def test_a_statement_that_was_not_fitted(each: Point) -> None:
    assert each.predicted(shipped()) == pytest.approx(each.seconds, rel=WITHIN)


def test_what_was_held_out_is_other_than_what_was_fitted() -> None:
    def key(each: Point) -> tuple[object, ...]:
        return each.network.name, each.network.precision, each.kind, len(each.rows), each.server

    fitted = {key(each) for each in ALL if not each.held}
    assert fitted
    assert not fitted & {key(each) for each in HELD}
    # the fit saw one process, and no ResNet-50
    assert {len(each.rows) for each in ALL if not each.held} == {1}
    assert {"resnet50"} <= {each.network.name for each in HELD} - {one[0] for one in fitted}
    assert {len(each.rows) for each in HELD} >= {1, 2}


def test_the_error_that_plan_tells_is_that_of_the_points() -> None:
    errors = [abs(each.predicted(shipped()) / each.seconds - 1) for each in HELD]
    assert shipped().error["largest"] == pytest.approx(max(errors), abs=0.002)
    assert shipped().error["points"] == len(HELD)
