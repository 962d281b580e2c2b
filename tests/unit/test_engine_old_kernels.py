"""Kernels that lack Landlock, seccomp or both: the engine works there, and says which guards are missing.

A filter of system calls that answers as such a kernel stands for it: the engine inherits it from its starter.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
from pathlib import Path
from typing import Any

import engine_models
import pytest
import tiny_models

from dbinfer.engine import HostEngine, hosts
from dbinfer_udf.engine import seccomp

pytestmark = pytest.mark.skipif(not seccomp.known(), reason="this kernel filters no system calls")
OLD = """
import json, sys
from dbinfer_udf.engine import client, kernel, seccomp
call = json.load(sys.stdin)
kernel.no_new_privileges()
if call["steps"]:
    seccomp._load([tuple(step) for step in call["steps"]])
engine = client.Engine(call["settings"], call["digest"], call["modules"])
img = open(call["img"], "rb").read()
try:
    found = [engine.open(call["spec"], call["folder"], threads).ask("predict", img, None) for threads in (1, 2)]
    print(json.dumps([found, client.status(call["settings"])]))
finally:
    client.stop(call["settings"])
"""
PRCTL = {"x86_64": 157, "aarch64": 167}
# a process that has threads can be filtered by a newer call alone
WHY_NOT = {1: "Invalid argument", 2: "the kernel filters no process that has threads"}
EINVAL, PR_SET_SECCOMP = 22, 22


def without(landlock: bool, filters: bool) -> list[seccomp.Step]:
    """Return the steps of a filter that makes a kernel without these of ours."""
    machine = platform.machine()
    column = list(PRCTL).index(machine)
    missing = [444, 445, 446] if landlock else []
    missing += [seccomp.SECCOMP[column]] if filters else []
    steps = seccomp._start(machine)
    for number in missing:
        steps += [(seccomp.EQUAL, 0, 1, number), (seccomp.RETURN, 0, 0, seccomp.ERRNO | seccomp.ENOSYS)]
    if filters:
        steps += [(seccomp.EQUAL, 0, 3, PRCTL[machine]), (seccomp.LOAD, 0, 0, seccomp.FIRST_ARGUMENT)]
        steps += [(seccomp.EQUAL, 0, 1, PR_SET_SECCOMP), (seccomp.RETURN, 0, 0, seccomp.ERRNO | EINVAL)]
    return [*steps, (seccomp.RETURN, 0, 0, seccomp.ALLOW)]


def scored(tmp_path: Path, steps: list[seccomp.Step]) -> tuple[list[str], dict[str, Any]]:
    """Return answers and facts of an engine that a process under such a filter has started."""
    spec, entry = engine_models.ticket(tiny_models.convolution(tmp_path), tmp_path / "cache")
    (tmp_path / "img").write_bytes(tiny_models.file(tiny_models.picture(1, 2, 3)))
    made = engine_models.engine(tmp_path / "engine")
    call = {"settings": made.settings, "digest": made.digest, "modules": made.modules, "spec": spec}
    told = json.dumps(dict(call, folder=entry.folder, img=str(tmp_path / "img"), steps=steps))
    command, path = [sys.executable, "-c", OLD], os.pathsep.join(filter(None, sys.path))
    answer = subprocess.run(
        command,
        check=False,
        capture_output=True,
        text=True,
        input=told,
        env={**os.environ, "PYTHONPATH": path},
    )
    assert answer.returncode == 0, answer.stderr
    found, (facts,) = json.loads(answer.stdout)
    return found, facts


@pytest.mark.parametrize("landlock", [True, False])
@pytest.mark.parametrize("filters", [True, False])
def test_the_engine_works_without_a_guard_and_says_so(tmp_path: Path, landlock: bool, filters: bool) -> None:
    answers, facts = scored(tmp_path, without(landlock, filters))
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


def engine_of(facts: dict[str, Any]) -> HostEngine:
    return hosts._engine({**facts, "host": "db1", "problem": None})
