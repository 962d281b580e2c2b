"""The numbers of the filter of system calls, and what it lets through, against the kernel's own headers.

So both architectures are checked on either of them; the filter itself is tried in test_engine_sandbox.py.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Sequence
from pathlib import Path

import pytest

from dbinfer_udf.host import sandbox, syscalls
from dbinfer_udf.host.sandbox import ALLOW, ERRNO, KILL, Step
from dbinfer_udf.host.syscalls import CAPGET, CAPSET, CLONE, F_GETFL, rules, rules_apart

INCLUDE = Path("/usr/include")
HEADERS = {"x86_64": "*/asm/unistd_64.h", "aarch64": "asm-generic/unistd.h"}
PROCESS, SEMAPHORE = 4711, 12
RULES = {**rules(PROCESS, SEMAPHORE), "clone": CLONE}
APART = rules_apart(PROCESS)
NAMED = {
    **{name: rule.number for name, rule in RULES.items()},
    "seccomp": syscalls.SECCOMP,
    "clone3": (sandbox.CLONE3, sandbox.CLONE3),
}
# arguments with which a worker may make a call that it may not make with others; and some of those
GOOD: dict[str, list[int]] = {
    "fcntl": [5, F_GETFL],
    "mmap": [0, 4096, 3, 0x22],
    "setsockopt": [5, 1, 20],
    "getsockopt": [5, 1, 17],
    "sched_setaffinity": [0],
    "tgkill": [PROCESS],
    "semop": [SEMAPHORE],
    "semtimedop": [SEMAPHORE],
    "membarrier": [8],
    "clone": [0x3D0F00],
}
BAD: dict[str, list[list[int]]] = {
    # F_SETFL, F_SETOWN, F_SETSIG, F_SETOWN_EX, F_NOTIFY
    "fcntl": [[5, 4], [5, 8], [5, 10], [5, 15], [5, 1026]],
    # shared, shared and checked, growing, of huge pages
    "mmap": [[0, 4096, 3, 0x21], [0, 4096, 3, 0x23], [0, 4096, 3, 0x122], [0, 4096, 3, 0x40022]],
    "setsockopt": [[5, 1, 7], [5, 0, 20], [5, 6, 21]],
    "getsockopt": [[5, 0, 17], [5, 1, 59]],
    "sched_setaffinity": [[1]],
    "tgkill": [[PROCESS + 1], [1]],
    "semop": [[SEMAPHORE + 1]],
    "semtimedop": [[0]],
    "membarrier": [[1], [2], [64]],
    "clone": [[17], [0x10000000]],
}


def header(pattern: str) -> str:
    found = sorted(INCLUDE.glob(pattern))
    if not found:
        pytest.skip("the kernel's headers are not there (package linux-libc-dev)")
    return found[0].read_text()


def numbers(machine: str) -> dict[str, int]:
    """Return all system calls of an architecture."""
    found = dict(re.findall(r"^#define __NR(?:3264)?_(\w+)\s+(\d+)", header(HEADERS[machine]), re.MULTILINE))
    return {name: int(number) for name, number in found.items() if not name.startswith("arch_specific")}


def decide(steps: list[Step], machine: int, number: int, arguments: Sequence[int] = ()) -> int:
    """Return what the kernel does with a call, as its machine of steps runs them."""
    shown = struct.pack("=IIQ6Q", number, machine, 0, *arguments, *[0] * (6 - len(arguments)))
    value = at = 0
    while True:
        operation, true, false, operand = steps[at]
        if operation == sandbox.RETURN:
            return operand
        if operation == sandbox.LOAD:
            (value,) = struct.unpack_from("=I", shown, operand)
        else:
            holds = value == operand if operation == sandbox.EQUAL else bool(value & operand)
            at += true if holds else false
        at += 1


@pytest.mark.parametrize("machine", HEADERS)
def test_the_numbers_are_the_kernels(machine: str) -> None:
    known, column = numbers(machine), list(HEADERS).index(machine)
    apart = {name: rule.number for name, rule in APART.items()}
    named = {"capget": CAPGET, "capset": CAPSET, **syscalls.FORBIDDEN_APART, **apart}
    for name, found in {**syscalls.CALLS, **syscalls.FORBIDDEN, **NAMED, **named}.items():
        # these headers may be older than the call
        newer = found[column] > max(known.values())
        assert newer or found[column] == known.get(name, -1), name


@pytest.mark.parametrize("machine", HEADERS)
def test_the_architectures_are_the_kernels(machine: str) -> None:
    (number,) = re.findall(rf"^#define EM_{machine.upper()}\s+(\d+)", header("linux/elf-em.h"), re.MULTILINE)
    bits = re.findall(r"^#define __AUDIT_ARCH_(?:64BIT|LE)\s+(0x\d+)", header("linux/audit.h"), re.MULTILINE)
    assert sandbox.AUDIT[machine] == int(number) | int(bits[0], 16) | int(bits[1], 16)


@pytest.mark.parametrize("machine", HEADERS)
def test_a_worker_may_make_its_own_calls_and_no_other(machine: str) -> None:
    assert RULES.keys() == GOOD.keys() == BAD.keys()
    steps, architecture = sandbox._allowing(machine, RULES), sandbox.AUDIT[machine]
    for name, number in numbers(machine).items():
        wanted = ALLOW if name in (*syscalls.CALLS, *RULES) else ERRNO | sandbox.EPERM
        wanted = ERRNO | sandbox.ENOSYS if name == "clone3" else wanted
        assert decide(steps, architecture, number, GOOD.get(name, ())) == wanted, name
        # another argument: no process, no other's semaphore, cores or signal, no memory that nobody counts
        for arguments in BAD.get(name, []):
            assert decide(steps, architecture, number, arguments) == ERRNO | sandbox.EPERM, (name, arguments)
    assert decide(steps, 1, 0) == KILL
    # where the network needs none, not even a thread
    without = sandbox._allowing(machine, rules(PROCESS, SEMAPHORE))
    assert decide(without, architecture, CLONE.number[list(HEADERS).index(machine)], GOOD["clone"]) != ALLOW


@pytest.mark.parametrize("machine", HEADERS)
def test_a_host_lacks_what_none_of_them_needs(machine: str) -> None:
    steps = sandbox._forbidding(machine)
    for name, number in numbers(machine).items():
        wanted = ERRNO | sandbox.EPERM if name in syscalls.FORBIDDEN else ALLOW
        assert decide(steps, sandbox.AUDIT[machine], number) == wanted, name
    # x86-64's second set of numbers
    assert decide(steps, sandbox.AUDIT[machine], sandbox.X32 | 41) == ERRNO | sandbox.EPERM
    assert decide(steps, 1, 0) == KILL


# what a reader of a stranger's file may do with calls of which it may make some, and what not
GOOD_APART: dict[str, list[list[int]]] = {
    "clone": [[0x3D0F00]],
    "fcntl": [[5, F_GETFL], [5, 4], [5, 6], [5, 1030]],
    "ioctl": [[1, 0x5401]],
    "kill": [[PROCESS, 6]],
    "tgkill": [[PROCESS, 1, 6]],
    **{name: [[0], [PROCESS]] for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler")},
    **{name: [[0], [PROCESS]] for name in ("sched_setparam", "sched_setattr")},
    "setpriority": [[0, 0], [0, PROCESS]],
}
BAD_APART: dict[str, list[list[int]]] = {
    "clone": [[17], [0x10000000]],
    # F_SETOWN, F_SETSIG, F_SETOWN_EX, F_SETLEASE, F_NOTIFY
    "fcntl": [[5, 8], [5, 10], [5, 15], [5, 1024], [5, 1026]],
    # FIOSETOWN, SIOCSPGRP, TIOCSTI, TIOCLINUX
    "ioctl": [[1, 0x8901], [1, 0x8902], [1, 0x5412], [1, 0x541C]],
    # its group, everybody, another
    "kill": [[0, 15], [0xFFFFFFFF, 15], [0xFFFFFFFF - PROCESS + 1, 15], [1, 15]],
    "tgkill": [[1, 1, 15]],
    **{name: [[1]] for name in ("prlimit64", "sched_setaffinity", "sched_setscheduler")},
    **{name: [[1]] for name in ("sched_setparam", "sched_setattr")},
    "setpriority": [[0, 1], [1, 0], [2, 0]],
}


@pytest.mark.parametrize("machine", HEADERS)
def test_who_computes_on_a_device_commands_its_driver(machine: str) -> None:
    steps = sandbox._forbidding(machine, syscalls.FORBIDDEN_APART, {"ioctl": syscalls.COMMANDS})
    number, architecture = numbers(machine)["ioctl"], sandbox.AUDIT[machine]
    # DRM_IOCTL_VERSION, one of a driver's own, and what a terminal says of itself
    for command in (0xC0406400, 0xC0186469, 0x5401):
        assert decide(steps, architecture, number, [1, command]) == ALLOW
    for command in (0x8901, 0x8902):  # FIOSETOWN, SIOCSPGRP
        assert decide(steps, architecture, number, [1, command]) == ERRNO | sandbox.EPERM


@pytest.mark.parametrize("machine", HEADERS)
def test_a_reader_of_foreign_files_lacks_what_concerns_others(machine: str) -> None:
    assert APART.keys() == GOOD_APART.keys() == BAD_APART.keys()
    steps, architecture = (
        sandbox._forbidding(machine, syscalls.FORBIDDEN_APART, APART),
        sandbox.AUDIT[machine],
    )
    for name, number in numbers(machine).items():
        if name in APART:
            for arguments in GOOD_APART[name]:
                assert decide(steps, architecture, number, arguments) == ALLOW, (name, arguments)
            for arguments in BAD_APART[name]:
                assert decide(steps, architecture, number, arguments) == ERRNO | sandbox.EPERM, (
                    name,
                    arguments,
                )
            continue
        wanted = ERRNO | sandbox.EPERM if name in syscalls.FORBIDDEN_APART else ALLOW
        wanted = ERRNO | sandbox.ENOSYS if name == "clone3" else wanted
        assert decide(steps, architecture, number) == wanted, name
    assert decide(steps, 1, 0) == KILL
