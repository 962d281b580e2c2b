"""What doctor says of a cluster's primaries and mirrors, whatever state they are in."""

from __future__ import annotations

import pytest

from dbinfer.install.doctor import RECOVER, SWAP, WAIT, Instance, judge

WELL = [Instance(0, "p", "p", "s", "u", "sdw1"), Instance(0, "m", "m", "s", "u", "sdw2")]
LOST_MIRROR = [Instance(0, "p", "p", "n", "u", "sdw1"), Instance(0, "m", "m", "n", "d", "sdw2")]
LOST_PRIMARY = [Instance(0, "p", "m", "n", "u", "sdw2"), Instance(0, "m", "p", "n", "d", "sdw1")]
CATCHES_UP = [Instance(0, "p", "m", "n", "u", "sdw2"), Instance(0, "m", "p", "n", "u", "sdw1")]
SWAPPED = [Instance(0, "p", "m", "s", "u", "sdw2"), Instance(0, "m", "p", "s", "u", "sdw1")]
SECOND = [Instance(1, "p", "p", "s", "u", "sdw2"), Instance(1, "m", "m", "s", "u", "sdw1")]


def test_all_is_well() -> None:
    (check,) = judge(WELL + SECOND)
    assert (check.ok, check.detail) == (True, "2 in sync")


def test_a_cluster_without_mirrors_has_no_check() -> None:
    assert judge([WELL[0], SECOND[0]]) == []


def test_what_is_wrong_is_named_with_its_cure(subtests: pytest.Subtests) -> None:
    for found, detail, hint in [
        (LOST_MIRROR, "segment 0: its mirror on sdw2 is down", RECOVER),
        (LOST_PRIMARY, "segment 0: its mirror on sdw2 scores, its primary on sdw1 is down", RECOVER),
        (CATCHES_UP, "segment 0: its mirror on sdw2 scores, sdw1 is not in sync yet", WAIT),
        (SWAPPED, "segment 0: its mirror on sdw2 scores", SWAP),
    ]:
        with subtests.test(found=found, detail=detail, hint=hint):
            (check,) = judge(found + SECOND)
            assert (check.ok, check.detail, check.hint) == (False, detail, hint)


def test_the_first_thing_to_do_comes_first() -> None:
    lost = [Instance(1, one.role, one.preferred, one.mode, one.status, one.host) for one in LOST_PRIMARY]
    (check,) = judge(SWAPPED + lost)
    assert "segment 0: " in check.detail
    assert "; segment 1: " in check.detail
    assert check.hint == RECOVER
