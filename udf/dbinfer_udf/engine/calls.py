"""The numbers of the system calls that the filter knows, of Linux for the two architectures that we know."""

from __future__ import annotations

from typing import Dict, Tuple

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
SECCOMP, CLONE, TGKILL = (317, 277), (56, 220), (234, 131)
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
