"""seccomp: which system calls a worker may make, as a small program that the kernel runs before each of them.

A worker takes connections, reads, computes and writes. All else is refused with EPERM: no file, no socket of its own,
no program, no signal to another process. Numbers are those of Linux for the two architectures that we know.
"""

from __future__ import annotations

import ctypes
import platform
import struct
from typing import Dict, List, Tuple

from .kernel import PR_SET_SECCOMP, prctl, syscall

LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
FILTER_MODE = 2
SECCOMP, SET_MODE_FILTER, SPEC_ALLOW = (317, 277), 1, 1 << 2
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, ENOSYS = 1, 38
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in what the kernel shows of a call
CLONE_THREAD = 0x10000
CLONE3 = 435  # everywhere; its flags lie in memory, where no filter can look: the C library then takes clone

Step = Tuple[int, int, int, int]  # operation, steps to skip if true, if false, value
X32 = 0x40000000

AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Name: number on x86-64, on ARM; -1 where there is none
CALLS: Dict[str, Tuple[int, int]] = {
    "read": (0, 63),
    "write": (1, 64),
    "close": (3, 57),
    "fstat": (5, 80),
    "poll": (7, -1),
    "ppoll": (271, 73),
    "lseek": (8, 62),
    "mmap": (9, 222),
    "mprotect": (10, 226),
    "munmap": (11, 215),
    "brk": (12, 214),
    "mremap": (25, 216),
    "madvise": (28, 233),
    "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135),
    "rt_sigreturn": (15, 139),
    "sigaltstack": (131, 132),
    "restart_syscall": (219, 128),
    "writev": (20, 66),
    "sendto": (44, 206),
    "recvfrom": (45, 207),
    "sendmsg": (46, 211),
    "recvmsg": (47, 212),
    "shutdown": (48, 210),
    "getsockname": (51, 204),
    "accept": (43, 202),
    "accept4": (288, 242),
    "setsockopt": (54, 208),
    "getsockopt": (55, 209),
    "fcntl": (72, 25),
    "setitimer": (38, 103),
    "sched_yield": (24, 124),
    "sched_getaffinity": (204, 123),
    "getcpu": (309, 168),
    "nanosleep": (35, 101),
    "clock_nanosleep": (230, 115),
    "clock_gettime": (228, 113),
    "gettimeofday": (96, 169),
    "futex": (202, 98),
    "set_robust_list": (273, 99),
    "rseq": (334, 293),
    "membarrier": (324, 283),
    "getpid": (39, 172),
    "gettid": (186, 178),
    "getuid": (102, 174),
    "geteuid": (107, 175),
    "getrusage": (98, 165),
    "sysinfo": (99, 179),
    "uname": (63, 160),
    "getrandom": (318, 278),
    "exit": (60, 93),
    "exit_group": (231, 94),
}
CLONE, TGKILL = (56, 220), (234, 131)
# OpenVINO binds its thread to the cores that it has, for each inference
SET_AFFINITY, OWN_THREAD = (203, 122), 0
SEMOP, SEMTIMEDOP = (65, 193), (220, 192)
# What also a process that loads a model and starts its trial has no use for
FORBIDDEN: Dict[str, Tuple[int, int]] = {
    "socket": (41, 198),
    "connect": (42, 203),
    "bind": (49, 200),
    "listen": (50, 201),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "io_uring_setup": (425, 425),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "pidfd_getfd": (438, 438),
    "shmget": (29, 194),
    "shmat": (30, 196),
    "keyctl": (250, 219),
    "add_key": (248, 217),
    "unshare": (272, 97),
    "setns": (308, 268),
    "mount": (165, 40),
}


def restrict(process: int, semaphore: int = -1) -> None:
    """Let this process make the calls above, start threads, and send signals to itself alone.

    Args:
        semaphore: number of the only set that it may wait for; -1: none.

    Raises:
        OSError: the kernel has no seccomp, or we do not know this architecture.
    """
    _load(_allowing(_machine(), process, semaphore & 0xFFFFFFFF))


def forbid() -> None:
    """Take from this process and its children the calls that none of them needs, those of the network first.

    Raises:
        OSError: as restrict.
    """
    _load(_forbidding(_machine()))


def _machine() -> str:
    machine = platform.machine()
    if machine not in AUDIT:
        raise OSError(ENOSYS, "no filter of system calls is known for %s" % machine)
    return machine


def _column(machine: str) -> int:
    return 0 if machine == "x86_64" else 1


def _load(steps: List[Step]) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    number, order = SECCOMP[_column(_machine())], ctypes.c_uint(SET_MODE_FILTER)
    try:
        # kernels before 5.16 slow a filtered process down against Spectre, unless they are told not to
        syscall(number, order, ctypes.c_uint(SPEC_ALLOW), ctypes.c_char_p(program))
    except OSError:
        prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.c_char_p(program))


def _start(machine: str) -> List[Step]:
    """Return the first steps: another architecture's numbers mean other calls."""
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]


def _allowing(machine: str, process: int, semaphore: int) -> List[Step]:
    column, steps = _column(machine), _start(machine)
    for numbers in CALLS.values():
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ALLOW)]
    steps += [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | ENOSYS)]
    # where the number is another, skip the three steps of the argument
    steps += [(EQUAL, 0, 3, CLONE[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (ANY_BIT, 0, 1, CLONE_THREAD)]
    steps += [(RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    only = {SET_AFFINITY: OWN_THREAD, TGKILL: process, SEMOP: semaphore, SEMTIMEDOP: semaphore}
    for numbers, argument in only.items():
        steps += [(EQUAL, 0, 4, numbers[column]), (LOAD, 0, 0, FIRST_ARGUMENT), (EQUAL, 0, 1, argument)]
        steps += [(RETURN, 0, 0, ALLOW), (LOAD, 0, 0, NUMBER)]
    return [*steps, (RETURN, 0, 0, ERRNO | EPERM)]


def _forbidding(machine: str) -> List[Step]:
    # the second set of numbers of x86-64 has this bit
    steps = [*_start(machine), (ANY_BIT, 0, 1, X32), (RETURN, 0, 0, ERRNO | EPERM)]
    for numbers in FORBIDDEN.values():
        steps += [(EQUAL, 0, 1, numbers[_column(machine)]), (RETURN, 0, 0, ERRNO | EPERM)]
    return [*steps, (RETURN, 0, 0, ALLOW)]
