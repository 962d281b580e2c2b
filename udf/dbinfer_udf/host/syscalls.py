"""The system calls that the filter knows, with their numbers in Linux on x86-64 and ARM."""

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
CAPGET, CAPSET = (125, 90), (126, 91)


class Rule(NamedTuple):
    """A call that is allowed with some arguments only.

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
SOL_SOCKET, SO_TYPE, SO_ERROR, SO_PEERCRED = 1, 3, 4, 17
SO_RCVTIMEO, SO_SNDTIMEO, SO_PROTOCOL, SO_DOMAIN = 20, 21, 38, 39
# Private memory that RLIMIT_DATA counts: shared mappings and those that grow like a stack (0x100) it does not. Allowed
# are PRIVATE, FIXED, ANONYMOUS, DENYWRITE, NORESERVE, POPULATE, STACK and FIXED_NOREPLACE.
PRIVATE_MEMORY = 0x2 | 0x10 | 0x20 | 0x800 | 0x4000 | 0x8000 | 0x20000 | 0x100000
# AF_INET; SOCK_STREAM, also with SOCK_CLOEXEC, SOCK_NONBLOCK or both
TCP_SOCKET = Rule((41, 198), only={0: (2,), 1: (0x1, 0x80001, 0x801, 0x80801)})
CLONE_THREAD = 0x10000
CLONE = Rule((56, 220), having={0: CLONE_THREAD})


def rules(process: int, semaphore: int) -> Dict[str, Rule]:
    """Return the calls that a worker may make with some arguments, because with others they would harm somebody else.

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


# Not even a process that loads a model and starts its trial needs these
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

# A process that reads a stranger's file does not need these either: programs, other processes and their signals,
# attributes of files (which Landlock ignores), objects that all processes share
FORBIDDEN_APART: Dict[str, Tuple[int, int]] = {
    **FORBIDDEN,
    "fork": (57, -1),
    "vfork": (58, -1),
    "execve": (59, 221),
    "execveat": (322, 281),
    "tkill": (200, 130),
    "rt_sigqueueinfo": (129, 138),
    "rt_tgsigqueueinfo": (297, 240),
    "pidfd_send_signal": (424, 424),
    "ioprio_set": (251, 30),
    "process_madvise": (440, 440),
    "process_mrelease": (448, 448),
    "kcmp": (312, 272),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
    "chmod": (90, -1),
    "fchmod": (91, 52),
    "fchmodat": (268, 53),
    "fchmodat2": (452, 452),
    "chown": (92, -1),
    "lchown": (94, -1),
    "fchown": (93, 55),
    "fchownat": (260, 54),
    "setxattr": (188, 5),
    "lsetxattr": (189, 6),
    "fsetxattr": (190, 7),
    "removexattr": (197, 14),
    "lremovexattr": (198, 15),
    "fremovexattr": (199, 16),
    "setxattrat": (463, 463),
    "removexattrat": (466, 466),
    "file_setattr": (469, 469),
    "utime": (132, -1),
    "utimes": (235, -1),
    "futimesat": (261, -1),
    "utimensat": (280, 88),
    "truncate": (76, 45),
    "open_by_handle_at": (304, 265),
    "fanotify_init": (300, 262),
    "memfd_create": (319, 279),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semctl": (66, 191),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgctl": (71, 187),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
}
# Copies, flags and locks; not whom to signal (F_SETOWN, F_SETSIG, F_SETOWN_EX), leases and notices
FCNTLS = (0, 1, 2, 3, 4, 5, 6, 7, 36, 37, 38, 1030, 1031, 1032, 1033, 1034)
# What terminals, pipes and files say of themselves, and how a descriptor waits and is closed
IOCTLS = (0x5401, 0x5413, 0x541B, 0x5421, 0x5450, 0x5451)
# What drivers take, whose numbers are their own: all but the kind that chooses whom a socket signals (0x89..); others
# do harm with a terminal alone, which Landlock lets nobody open
COMMANDS = Rule((16, 29), without={1: 0x8900})


def rules_apart(process: int) -> Dict[str, Rule]:
    """Return the calls that such a process may make with some arguments: threads, and what concerns only itself."""
    itself = (0, process)
    return {
        "clone": CLONE,
        "fcntl": Rule((72, 25), only={1: FCNTLS}),
        "ioctl": Rule((16, 29), only={1: IOCTLS}),
        "kill": Rule((62, 129), only={0: (process,)}),
        "tgkill": Rule((234, 131), only={0: (process,)}),
        "prlimit64": Rule((302, 261), only={0: itself}),
        "sched_setaffinity": Rule((203, 122), only={0: itself}),
        "sched_setscheduler": Rule((144, 119), only={0: itself}),
        "sched_setparam": Rule((142, 118), only={0: itself}),
        "sched_setattr": Rule((314, 274), only={0: itself}),
        "setpriority": Rule((141, 140), only={0: (0,), 1: itself}),
    }
