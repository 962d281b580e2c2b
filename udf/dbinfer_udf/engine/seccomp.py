"""seccomp: which system calls a worker may make, as a small program that the kernel runs before each of them.

A worker takes connections, reads, computes and writes. All else is refused with EPERM: no file, no socket of its own,
no program, no signal to another process, no thread where the network needs none. It holds for all threads of a process.
"""

from __future__ import annotations

import contextlib
import ctypes
import platform
import struct
from typing import Dict, List, Optional, Tuple

from .calls import AUDIT, CALLS, CLONE, FORBIDDEN, FORBIDDEN_APART, SECCOMP, Rule, rules, rules_apart
from .kernel import PR_SET_SECCOMP, prctl, syscall

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
FILTER_MODE = 2
SET_MODE_FILTER, ALL_THREADS, SPEC_ALLOW = 1, 1 << 0, 1 << 2
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, EFAULT, ENOSYS = 1, 14, 38
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in what the kernel shows of a call
CLONE3 = 435  # everywhere; its flags lie in memory, where no filter can look: the C library then takes clone

Step = Tuple[int, int, int, int]  # operation, steps to skip if true, if false, value
X32 = 0x40000000


def restrict(process: int, semaphore: int = -1, alone: bool = True, starts_threads: bool = False) -> None:
    """Let this process make the CALLS and what `rules` allows, and nothing else.

    Args:
        semaphore: number of the only set that it may wait for; -1: none.
        alone: it has one thread.
        starts_threads: it may start more.

    Raises:
        OSError: the kernel has no seccomp, or we do not know this architecture.
    """
    allowed = rules(process, semaphore)
    if starts_threads:
        allowed["clone"] = CLONE
    _load(_allowing(_machine(), allowed), alone)


def forbid() -> None:
    """Take from this process and its children the calls that none of them needs, those of the network first.

    Raises:
        OSError: as restrict.
    """
    _load(_forbidding(_machine()))


def forbid_apart(process: int, alone: bool = True) -> None:
    """Take from this process what no reader of a file needs: the network, other processes, signals to them.

    Args:
        process: the only one that it may signal: itself.
        alone: it has one thread.

    Raises:
        OSError: as restrict.
    """
    _load(_forbidding(_machine(), FORBIDDEN_APART, rules_apart(process)), alone)


def _machine() -> str:
    machine = platform.machine()
    if machine not in AUDIT:
        raise OSError(ENOSYS, "the numbers of %s are not known" % machine)
    return machine


def column() -> int:
    """Return which of the two numbers of a call is this machine's; OSError where neither is."""
    return _column(_machine())


def _column(machine: str) -> int:
    return 0 if machine == "x86_64" else 1


def _load(steps: List[Step], alone: bool = True) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    number, order = SECCOMP[_column(_machine())], ctypes.c_uint(SET_MODE_FILTER)
    # kernels before 5.16 slow a filtered process down against Spectre, unless they are told not to
    for flags in (ALL_THREADS | SPEC_ALLOW, ALL_THREADS):
        with contextlib.suppress(OSError):
            if syscall(number, order, ctypes.c_uint(flags), ctypes.c_char_p(program)) == 0:
                return
    if not alone:
        raise OSError(ENOSYS, "the kernel filters no process that has threads")
    prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.c_char_p(program))


def known() -> bool:
    """Return whether this kernel filters system calls, on an architecture that we know."""
    if platform.machine() not in AUDIT:
        return False
    try:
        prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.c_char_p(None))
    except OSError as err:
        # a kernel that can looks for the filter, and finds none
        return err.errno == EFAULT
    return True


def _start(machine: str) -> List[Step]:
    """Return the first steps: another architecture's numbers mean other calls."""
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]


def _allowing(machine: str, allowed: Dict[str, Rule]) -> List[Step]:
    column, steps = _column(machine), _start(machine)
    for numbers in CALLS.values():
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ALLOW)]
    return [*steps, *_by_rules(column, allowed), (RETURN, 0, 0, ERRNO | EPERM)]


def _by_rules(column: int, allowed: Dict[str, Rule]) -> List[Step]:
    """Return steps that decide the calls that may be made with some arguments, and pass over all others."""
    steps: List[Step] = [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | ENOSYS)]
    for rule in allowed.values():
        checks = _checks(rule)
        # where the number is another, the checks are skipped
        steps += [(EQUAL, 0, len(checks), rule.number[column]), *checks]
    return steps


def _checks(rule: Rule) -> List[Step]:
    """Return steps that allow the call with the arguments of a rule, and refuse it with others."""
    steps: List[Step] = []
    refused: Step = (RETURN, 0, 0, ERRNO | EPERM)
    for argument, values in rule.only.items():
        steps.append((LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument))
        # whichever is equal leads behind the refusal
        steps += [(EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
        steps.append(refused)
    for argument, bits in rule.without.items():
        steps += [(LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument), (ANY_BIT, 0, 1, bits), refused]
    for argument, bits in rule.having.items():
        steps += [(LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument), (ANY_BIT, 1, 0, bits), refused]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _forbidding(
    machine: str,
    forbidden: Dict[str, Tuple[int, int]] = FORBIDDEN,
    allowed: Optional[Dict[str, Rule]] = None,
) -> List[Step]:
    column = _column(machine)
    # the second set of numbers of x86-64 has this bit
    steps = [*_start(machine), (ANY_BIT, 0, 1, X32), (RETURN, 0, 0, ERRNO | EPERM)]
    for numbers in forbidden.values():
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ERRNO | EPERM)]
    return [*steps, *(_by_rules(column, allowed) if allowed else []), (RETURN, 0, 0, ALLOW)]
