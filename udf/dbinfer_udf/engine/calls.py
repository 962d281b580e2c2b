"""The numbers of the system calls that the filter knows, of Linux for the two architectures that we know."""

from __future__ import annotations

from typing import Dict, Mapping, NamedTuple, Sequence, Tuple

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
    "getsockname": (51, 204),
    "accept": (43, 202),
    "accept4": (288, 242),
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
SECCOMP = (317, 277)


class Rule(NamedTuple):
    """A call that is allowed with some arguments alone.

    Attributes:
        number: on x86-64, on ARM.
        only: argument (from 0): the values that it may have, of its lower 32 bits.
        without: argument: the bits that it may not have.
        having: argument: bits of which it must have one.
    """

    number: Tuple[int, int]
    only: Mapping[int, Sequence[int]] = {}
    without: Mapping[int, int] = {}
    having: Mapping[int, int] = {}


F_GETFD, F_GETFL, F_DUPFD_CLOEXEC = 1, 3, 1030
SOL_SOCKET, SO_TYPE, SO_ERROR, SO_PEERCRED, SO_RCVTIMEO, SO_SNDTIMEO, SO_PROTOCOL, SO_DOMAIN = (
    1,
    3,
    4,
    17,
    20,
    21,
    38,
    39,
)
# Private memory that RLIMIT_DATA counts: shared mappings and those that grow like a stack (0x100) it does not. Allowed
# are PRIVATE, FIXED, ANONYMOUS, DENYWRITE, NORESERVE, POPULATE, STACK and FIXED_NOREPLACE.
PRIVATE_MEMORY = 0x2 | 0x10 | 0x20 | 0x800 | 0x4000 | 0x8000 | 0x20000 | 0x100000
CLONE_THREAD = 0x10000
CLONE = Rule((56, 220), having={0: CLONE_THREAD})


def rules(process: int, semaphore: int) -> Dict[str, Rule]:
    """Return the calls of which a worker may make some: what others of the same number do is somebody else's harm.

    fcntl would make the kernel signal any process of this user (F_SETOWN, F_SETSIG, O_ASYNC) and, as shutdown and most
    options of sockets, would change the listener that all workers share; a message can carry descriptors.

    Args:
        process: the only one that it may signal: itself.
        semaphore: number of the only set that it may wait for; -1: none.
    """
    return {
        "fcntl": Rule((72, 25), only={1: (F_GETFD, F_GETFL, F_DUPFD_CLOEXEC)}),
        "mmap": Rule((9, 222), without={3: 0xFFFFFFFF ^ PRIVATE_MEMORY}),
        "setsockopt": Rule((54, 208), only={1: (SOL_SOCKET,), 2: (SO_RCVTIMEO, SO_SNDTIMEO)}),
        "getsockopt": Rule(
            (55, 209), only={1: (SOL_SOCKET,), 2: (SO_TYPE, SO_ERROR, SO_PEERCRED, SO_PROTOCOL, SO_DOMAIN)}
        ),
        # OpenVINO binds its thread, and no other, to the cores that it has, for each inference
        "sched_setaffinity": Rule((203, 122), only={0: (0,)}),
        "tgkill": Rule((234, 131), only={0: (process,)}),
        "semop": Rule((65, 193), only={0: (semaphore & 0xFFFFFFFF,)}),
        "semtimedop": Rule((220, 192), only={0: (semaphore & 0xFFFFFFFF,)}),
        # query, and the two that concern this process alone
        "membarrier": Rule((324, 283), only={0: (0, 8, 16)}),
    }


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
