"""The numbers of the filter of system calls, and what it lets through, against the kernel's own headers.

So both architectures are checked on either of them; the filter itself is tried in test_engine_sandbox.py.
"""

from __future__ import annotations

import re
import struct
from pathlib import Path

import pytest

from dbinfer_udf.engine import seccomp
from dbinfer_udf.engine.seccomp import ALLOW, ERRNO, KILL, Step

INCLUDE = Path("/usr/include")
HEADERS = {"x86_64": "*/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}
NAMED = {
    "clone": seccomp.CLONE,
    "tgkill": seccomp.TGKILL,
    "sched_setaffinity": seccomp.SET_AFFINITY,
    "semop": seccomp.SEMOP,
    "semtimedop": seccomp.SEMTIMEDOP,
    "seccomp": seccomp.SECCOMP,
    "clone3": (seccomp.CLONE3, seccomp.CLONE3),
}
PROCESS, SEMAPHORE = 4711, 12
# the only value that the first argument of these may have; of clone, a bit
ONLY = {"tgkill": PROCESS, "semop": SEMAPHORE, "semtimedop": SEMAPHORE, "sched_setaffinity": 0}


def header(pattern: str) -> str:
    found = sorted(INCLUDE.glob(pattern))
    if not found:
        pytest.skip("the kernel's headers are not there (package linux-libc-dev)")
    return found[0].read_text()


def numbers(machine: str) -> dict[str, int]:
    """Return all system calls of an architecture."""
    found = dict(re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", header(HEADERS[machine]), re.MULTILINE))
    return {name: int(number) for name, number in found.items() if not name.startswith("arch_specific")}


def decide(steps: list[Step], machine: int, number: int, argument: int = 0) -> int:
    """Return what the kernel does with a call, as its machine of steps runs them."""
    shown = struct.pack("=IIQ6Q", number, machine, 0, argument, *[0] * 5)
    value = at = 0
    while True:
        operation, true, false, operand = steps[at]
        if operation == seccomp.RETURN:
            return operand
        if operation == seccomp.LOAD:
            (value,) = struct.unpack_from("=I", shown, operand)
        else:
            holds = value == operand if operation == seccomp.EQUAL else bool(value & operand)
            at += true if holds else false
        at += 1


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    known, column = numbers(machine), list(HEADERS).index(machine)
    for name, found in {**seccomp.CALLS, **seccomp.FORBIDDEN, **NAMED}.items():
        assert found[column] == known.get(name, -1), name


@pytest.mark.parametrize("machine", HEADERS)
def test_the_architectures_are_the_kernels(machine: str) -> None:
    (number,) = re.findall(rf"^#define EM_{machine.upper()}\s+(\d+)", header("linux/elf-em.h"), re.MULTILINE)
    bits = re.findall(r"^#define __AUDIT_ARCH_(?:64BIT|LE)\s+(0x\d+)", header("linux/audit.h"), re.MULTILINE)
    assert seccomp.AUDIT[machine] == int(number) | int(bits[0], 16) | int(bits[1], 16)


@pytest.mark.parametrize("machine", HEADERS)
def test_a_worker_may_make_its_own_calls_and_no_other(machine: str) -> None:
    steps = seccomp._allowing(machine, PROCESS, SEMAPHORE)
    for name, number in numbers(machine).items():
        right = ONLY.get(name, seccomp.CLONE_THREAD)
        wanted = ALLOW if name in (*seccomp.CALLS, *ONLY, "clone") else ERRNO | seccomp.EPERM
        wanted = ERRNO | seccomp.ENOSYS if name == "clone3" else wanted
        assert decide(steps, seccomp.AUDIT[machine], number, right) == wanted, name
        # another argument: no process, no other's semaphore, cores or signal
        if name in (*ONLY, "clone"):
            assert decide(steps, seccomp.AUDIT[machine], number, 99) == ERRNO | seccomp.EPERM, name
    assert decide(steps, 1, 0) == KILL


@pytest.mark.parametrize("machine", HEADERS)
def test_a_host_lacks_what_none_of_them_needs(machine: str) -> None:
    steps = seccomp._forbidding(machine)
    for name, number in numbers(machine).items():
        wanted = ERRNO | seccomp.EPERM if name in seccomp.FORBIDDEN else ALLOW
        assert decide(steps, seccomp.AUDIT[machine], number) == wanted, name
    # x86-64's second set of numbers
    assert decide(steps, seccomp.AUDIT[machine], seccomp.X32 | 41) == ERRNO | seccomp.EPERM
    assert decide(steps, 1, 0) == KILL
