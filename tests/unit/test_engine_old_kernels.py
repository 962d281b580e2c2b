"""Kernels that lack Landlock, seccomp or both: the engine works there, and says which guards are missing.

A filter of system calls that answers as such a kernel stands for it: the engine inherits it from its starter.
"""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest
from engine_elsewhere import scored
from engine_places import GOOD

from dbinfer.install import hosts
from dbinfer.install.hosts import HostEngine
from dbinfer_udf.host import sandbox, syscalls

pytestmark = pytest.mark.skipif(not sandbox.has_seccomp(), reason="this kernel filters no system calls")
PRCTL = {"x86_64": 157, "aarch64": 167}
# a process that has threads can be filtered by a newer call alone
WHY_NOT = {1: "Invalid argument", 2: "the kernel filters no process that has threads"}
EINVAL, PR_SET_SECCOMP = 22, 22


def without(landlock: bool, filters: bool) -> list[sandbox.Step]:
    """Return the steps of a filter that makes a kernel without these of ours."""
    machine = platform.machine()
    column = list(PRCTL).index(machine)
    missing = [444, 445, 446] if landlock else []
    missing += [syscalls.SECCOMP[column]] if filters else []
    steps = sandbox._first_steps(machine)
    for number in missing:
        steps += [(sandbox.EQUAL, 0, 1, number), (sandbox.RETURN, 0, 0, sandbox.ERRNO | sandbox.ENOSYS)]
    if filters:
        steps += [(sandbox.EQUAL, 0, 3, PRCTL[machine]), (sandbox.LOAD, 0, 0, sandbox.FIRST_ARGUMENT)]
        steps += [(sandbox.EQUAL, 0, 1, PR_SET_SECCOMP), (sandbox.RETURN, 0, 0, sandbox.ERRNO | EINVAL)]
    return [*steps, (sandbox.RETURN, 0, 0, sandbox.ALLOW)]


@pytest.mark.wide
@pytest.mark.parametrize("landlock", [True, False])
@pytest.mark.parametrize("filters", [True, False])
def test_the_engine_works_without_a_guard_and_says_so(tmp_path: Path, landlock: bool, filters: bool) -> None:
    answers, facts = scored(tmp_path, GOOD, without(landlock, filters), [])
    assert answers[0] == answers[1]
    assert bool(facts["sandbox"]["landlock"]) != landlock
    assert facts["sandbox"]["seccomp"] != filters
    lacks = ["no Landlock: Function not implemented"] if landlock else []
    for model in facts["models"]:
        said = ["no filter of system calls: " + WHY_NOT[model["threads"]]] if filters else []
        assert model["sandbox"].get("problem", "") == "; ".join(lacks + said)
        # threads that are there before Landlock comes keep what they had
        closed = not filters or (not landlock and model["threads"] == 1)
        assert model["sandbox"]["files"] == closed
    log = (tmp_path / "engine" / "engine.log").read_text()
    names = [
        name for name, lacking in (("Landlock", landlock), ("filter of system calls", filters)) if lacking
    ]
    assert [name in log.partition(" is loaded")[0] for name in names] == [True] * len(names)
    check = hosts._check(engine_of(facts), "always")
    assert check.ok == (not (landlock and filters))
    assert ("without landlock" in check.detail, "seccomp" in check.detail) == (landlock, filters)
    assert f", Linux {platform.release()}" in check.detail


def engine_of(facts: dict[str, Any]) -> HostEngine:
    return hosts._engine({**facts, "host": "db1", "problem": None})


GAINED = {
    (0, True): "without landlock: a hostile model can read and write the server's files while it is compiled",
    (
        7,
        False,
    ): "without seccomp: a hostile image or model can open sockets and log in where the database trusts the "
    "server's user",
    (5, False): "where the database trusts the server's user, and signal the server's processes",
    (
        0,
        False,
    ): "without landlock and seccomp: a hostile image or model can do all that the server's user can",
}


def test_the_doctor_names_the_kernel_and_what_its_gaps_let_in(subtests: pytest.Subtests) -> None:
    for (landlock, filters), gained in GAINED.items():
        with subtests.test(landlock=landlock, filters=filters):
            sandbox = {"landlock": landlock, "seccomp": filters, "kernel": "Linux 6.1.0"}
            check = hosts._check(engine_of({"digest": "", "sandbox": sandbox}), "auto")
            assert ", Linux 6.1.0, without " in check.detail
            assert check.detail.endswith(gained)
