"""Guards of the kernel, which bound what a worker may do: files by Landlock, system calls by a filter (seccomp).

A worker takes connections, reads, computes and writes. All else is refused with EPERM: no file, no socket of its own,
no program, no signal to another process, no thread where the network needs none. It holds for all threads of a process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import platform
import select
import signal
import struct
import sys
from typing import Any, Dict, Iterable, List, Optional, Sequence, Tuple

from . import syscalls
from .syscalls import AUDIT, CLONE, Rule

PR_SET_PDEATHSIG = 1
PR_SET_DUMPABLE = 4
PR_SET_NAME = 15
PR_SET_SECCOMP = 22
PR_SET_NO_NEW_PRIVS = 38
# Fields of /proc/self/stat, counted from 0: where the arguments of the command line lie in memory
ARG_START, ARG_END = 47, 48

libc = ctypes.CDLL(None, use_errno=True)
libc.syscall.restype = ctypes.c_long


def syscall(number: int, *arguments: Any) -> int:
    """Make a system call; OSError where the kernel refuses it."""
    return _checked(libc.syscall(ctypes.c_long(number), *arguments))


def prctl(option: int, *arguments: Any) -> None:
    """Set an attribute of this process; OSError where the kernel refuses it."""
    values = [*arguments, 0, 0, 0, 0][:4]
    _checked(libc.prctl(option, *[ctypes.c_ulong(v) if isinstance(v, int) else v for v in values]))


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result


def die_with(parent: int) -> None:
    """End this process when its parent ends, or at once if that has happened already."""
    prctl(PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:
        os._exit(1)


def count_threads() -> int:
    """Return how many threads this process has."""
    return len(os.listdir("/proc/self/task"))


def hung_up(fd: int) -> bool:
    """Return whether the other side of a socket has closed, whatever waits to be read before."""
    poll = select.poll()
    poll.register(fd, 0)
    # the kernel reports a hang-up whether it was asked for or not
    return any(event & (select.POLLHUP | select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0))


def memory_file(name: str, data: bytes) -> int:
    """Return the descriptor of a file in memory with this content, positioned at its start."""
    fd = os.memfd_create(name)
    os.write(fd, data)
    os.lseek(fd, 0, os.SEEK_SET)
    return fd


def no_new_privileges() -> None:
    """Let nothing that this process starts gain rights, which Landlock and seccomp require."""
    prctl(PR_SET_NO_NEW_PRIVS, 1)


def set_title(name: str, text: str = "") -> None:
    """Show `name: text` in ps: as the process's name (15 bytes) and over its command line."""
    with contextlib.suppress(OSError):
        prctl(PR_SET_NAME, ctypes.c_char_p(name.encode()[:15]))
    # only a title: without /proc the process is called Python
    with contextlib.suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat") as stat:
            text_of = stat.read()
        # behind the last parenthesis: the name before it may hold spaces and parentheses
        fields = ["", "", *text_of.rpartition(")")[2].split()]
        start, end = int(fields[ARG_START]), int(fields[ARG_END])
        title = ("%s: %s" % (name, text) if text else name).encode()[: end - start - 1]
        ctypes.memset(start, 0, end - start)
        ctypes.memmove(start, title, len(title))


def more_likely_victim() -> None:
    """Ask the kernel to end this process, not a backend, if memory runs out: that costs a row, not all sessions."""
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "r+") as score:
        if int(score.read()) < 500:
            score.write("500")


def close_all_but(kept: List[int]) -> None:
    """Close all descriptors but these and the standard ones."""
    low = 3
    for fd in [*sorted(kept), os.sysconf("SC_OPEN_MAX")]:
        # an empty range would be taken for all that follow
        if low < fd:
            os.closerange(low, fd)
        low = max(low, fd + 1)


# The numbers are the same on all architectures
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION_FLAG, PATH_BENEATH, NET_PORT = 1, 1, 2
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR, TRUNCATE = 1 << 0, 1 << 1, 1 << 2, 1 << 3, 1 << 14
COMMAND = 1 << 15  # ioctl, of devices alone
REMOVE_DIR, REMOVE_FILE, MAKE_DIR, MAKE_FILE = 1 << 4, 1 << 5, 1 << 7, 1 << 8
READ = EXECUTE | READ_FILE | READ_DIR
WRITE = READ | WRITE_FILE | TRUNCATE | COMMAND | REMOVE_DIR | REMOVE_FILE | MAKE_DIR | MAKE_FILE
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | COMMAND
# What each version of the kernel's interface knows: rights to files, TCP, and what lies outside (sockets, signals)
FILE_RIGHTS = {1: 1 << 13, 2: 1 << 14, 3: 1 << 15, 5: 1 << 16}
TCP_SINCE, TCP, CONNECT_TCP = 4, 3, 2
SCOPE_SINCE, SCOPE = 6, 3


def landlock_version() -> int:
    """Return the version of the kernel's interface; 0 where it has none."""
    try:
        return syscall(CREATE_RULESET, None, ctypes.c_size_t(0), ctypes.c_uint(VERSION_FLAG))
    except OSError:
        return 0


def restrict_files(read: Iterable[str] = (), write: Iterable[str] = (), ports: Iterable[int] = ()) -> int:
    """Allow these files and folders and no others, no TCP, and no signal to processes outside; return the version.

    It cannot be undone, only made stricter. OSError where the kernel refuses.

    Args:
        read: may be read and executed.
        write: may be written, too.
        ports: of TCP to which it may connect, on any host.
    """
    known = landlock_version()
    if not known:
        raise OSError(38, os.strerror(38))
    rights = max(bits for since, bits in FILE_RIGHTS.items() if since <= known) - 1
    attributes = struct.pack(
        "=QQQ", rights, TCP if known >= TCP_SINCE else 0, SCOPE if known >= SCOPE_SINCE else 0
    )
    size = 8 if known < TCP_SINCE else 16 if known < SCOPE_SINCE else 24
    ruleset = syscall(
        CREATE_RULESET, ctypes.c_char_p(attributes[:size]), ctypes.c_size_t(size), ctypes.c_uint(0)
    )
    try:
        for paths, allowed in ((read, READ), (write, WRITE)):
            for path in paths:
                _allow(ruleset, path, allowed & rights)
        for port in ports if known >= TCP_SINCE else ():
            rule = ctypes.c_char_p(struct.pack("=QQ", CONNECT_TCP, port))
            syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(NET_PORT), rule, ctypes.c_uint(0))
        syscall(RESTRICT_SELF, ctypes.c_int(ruleset), ctypes.c_uint(0))
    finally:
        os.close(ruleset)
    return known


def _allow(ruleset: int, path: str, allowed: int) -> None:
    try:
        target = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:  # a missing path needs no rule
        return
    try:
        if not os.path.isdir(path):
            allowed &= OF_FILES
        rule = ctypes.c_char_p(struct.pack("=Qi", allowed, target))
        syscall(ADD_RULE, ctypes.c_int(ruleset), ctypes.c_int(PATH_BENEATH), rule, ctypes.c_uint(0))
    finally:
        os.close(target)


LOAD, EQUAL, ANY_BIT, RETURN = 0x20, 0x15, 0x45, 0x06
FILTER_MODE = 2
SET_MODE_FILTER, ALL_THREADS, SPEC_ALLOW = 1, 1 << 0, 1 << 2
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
EPERM, EFAULT, ENOSYS = 1, 14, 38
NUMBER, ARCHITECTURE, FIRST_ARGUMENT = 0, 4, 16  # offsets in what the kernel shows of a call
CLONE3 = (
    435  # everywhere; no filter can read its flags, which lie in memory. Refused, the C library takes clone
)

Step = Tuple[int, int, int, int]  # operation, steps to skip if true, if false, value
X32 = 0x40000000


def restrict_calls(
    process: int, semaphore: int = -1, alone: bool = True, starts_threads: bool = False
) -> None:
    """Let this process make the CALLS and those that `rules` allows, and no others.

    Args:
        semaphore: number of the only set that it may wait for; -1: none.
        alone: it has one thread.
        starts_threads: it may start more.

    Raises:
        OSError: the kernel has no seccomp, or we do not know this architecture.
    """
    allowed = syscalls.rules(process, semaphore)
    if starts_threads:
        allowed["clone"] = CLONE
    _load_filter(_allowing(_machine(), allowed), alone)


def forbid() -> None:
    """Take from this process and its children the calls that none of them needs, above all those of the network.

    Raises:
        OSError: as restrict.
    """
    _load_filter(_forbidding(_machine()))


def forbid_apart(process: int, alone: bool = True, connects: bool = False, drivers: bool = False) -> None:
    """Take from this process what no reader of a file needs: the network, other processes, signals to them.

    Args:
        process: the only one that it may signal: itself.
        alone: it has one thread.
        connects: it may connect by TCP over IPv4, as far as Landlock lets it.
        drivers: it may command those drivers of the kernel whose devices it may open.

    Raises:
        OSError: as restrict.
    """
    forbidden, allowed = syscalls.FORBIDDEN_APART, syscalls.rules_apart(process)
    if connects:
        forbidden = {
            name: numbers for name, numbers in forbidden.items() if name not in ("socket", "connect")
        }
        allowed["socket"] = syscalls.TCP_SOCKET
    if drivers:
        allowed["ioctl"] = syscalls.COMMANDS
    _load_filter(_forbidding(_machine(), forbidden, allowed), alone)


def _machine() -> str:
    machine = platform.machine()
    if machine not in AUDIT:
        raise OSError(ENOSYS, "the numbers of %s are not known" % machine)
    return machine


def column() -> int:
    """Return which of the two numbers of a call belongs to this machine; OSError if neither does."""
    return _column(_machine())


def _column(machine: str) -> int:
    return 0 if machine == "x86_64" else 1


def _load_filter(steps: List[Step], alone: bool = True) -> None:
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    buffer = ctypes.create_string_buffer(code, len(code))
    program = struct.pack("@HP", len(steps), ctypes.addressof(buffer))
    number, order = syscalls.SECCOMP[_column(_machine())], ctypes.c_uint(SET_MODE_FILTER)
    # kernels before 5.16 slow down a filtered process because of Spectre, unless told not to
    for flags in (ALL_THREADS | SPEC_ALLOW, ALL_THREADS):
        with contextlib.suppress(OSError):
            if syscall(number, order, ctypes.c_uint(flags), ctypes.c_char_p(program)) == 0:
                return
    if not alone:
        raise OSError(ENOSYS, "the kernel filters no process that has threads")
    prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.c_char_p(program))


def has_seccomp() -> bool:
    """Return whether this kernel filters system calls, on an architecture that we know."""
    if platform.machine() not in AUDIT:
        return False
    try:
        prctl(PR_SET_SECCOMP, FILTER_MODE, ctypes.c_char_p(None))
    except OSError as err:
        # a kernel with seccomp looks for the filter at the address, and finds none
        return err.errno == EFAULT
    return True


def _first_steps(machine: str) -> List[Step]:
    """Return the first steps: another architecture's numbers mean other calls."""
    return [
        (LOAD, 0, 0, ARCHITECTURE),
        (EQUAL, 1, 0, AUDIT[machine]),
        (RETURN, 0, 0, KILL),
        (LOAD, 0, 0, NUMBER),
    ]


def _allowing(machine: str, allowed: Dict[str, Rule]) -> List[Step]:
    column, steps = _column(machine), _first_steps(machine)
    for numbers in syscalls.CALLS.values():
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ALLOW)]
    return [*steps, *_by_rules(column, allowed), (RETURN, 0, 0, ERRNO | EPERM)]


def _by_rules(column: int, allowed: Dict[str, Rule]) -> List[Step]:
    """Return steps that decide the calls that may be made with some arguments, and pass over all others."""
    steps: List[Step] = [(EQUAL, 0, 1, CLONE3), (RETURN, 0, 0, ERRNO | ENOSYS)]
    for rule in allowed.values():
        checks = _checks(rule)
        # for other numbers the checks are skipped
        steps += [(EQUAL, 0, len(checks), rule.number[column]), *checks]
    return steps


def _checks(rule: Rule) -> List[Step]:
    """Return steps that allow the call with the arguments of a rule, and refuse it with others."""
    steps: List[Step] = []
    refused: Step = (RETURN, 0, 0, ERRNO | EPERM)
    for argument, values in rule.only.items():
        steps.append((LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument))
        # a value that is equal jumps over the refusal
        steps += [(EQUAL, len(values) - at, 0, value) for at, value in enumerate(values)]
        steps.append(refused)
    for argument, bits in rule.without.items():
        steps += [(LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument), (ANY_BIT, 0, 1, bits), refused]
    for argument, bits in rule.having.items():
        steps += [(LOAD, 0, 0, FIRST_ARGUMENT + 8 * argument), (ANY_BIT, 1, 0, bits), refused]
    return [*steps, (RETURN, 0, 0, ALLOW)]


def _forbidding(
    machine: str,
    forbidden: Dict[str, Tuple[int, int]] = syscalls.FORBIDDEN,
    allowed: Optional[Dict[str, Rule]] = None,
) -> List[Step]:
    column = _column(machine)
    # the second set of numbers of x86-64 has this bit
    steps = [*_first_steps(machine), (ANY_BIT, 0, 1, X32), (RETURN, 0, 0, ERRNO | EPERM)]
    for numbers in forbidden.values():
        if numbers[column] >= 0:
            steps += [(EQUAL, 0, 1, numbers[column]), (RETURN, 0, 0, ERRNO | EPERM)]
    return [*steps, *(_by_rules(column, allowed) if allowed else []), (RETURN, 0, 0, ALLOW)]


CAPABILITIES = 0x20080522  # of version 3 of the two calls
# CAP_DAC_OVERRIDE and CAP_DAC_READ_SEARCH: root reads and writes files of others, which Landlock bounds
LANDLOCK_OF_FILES = 1 << 1 | 1 << 2
# All that imports read of a machine, and OpenVINO to find cores, memory and itself
SYSTEM = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/ld.so.cache", "/etc/localtime")
# Of /proc only the process itself: others show their command lines there
KERNEL = (
    *("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/sys/vm"),
    *("/sys/devices/system", "/sys/fs/cgroup", "/dev/urandom", "/dev/zero"),
)


def guards() -> Dict[str, Any]:
    """Return the kernel, the version of its Landlock's interface (0: none), and whether it filters system calls."""
    system = os.uname()
    named = "%s %s" % (system.sysname, system.release)
    return {"landlock": landlock_version(), "seccomp": has_seccomp(), "kernel": named}


def missing_guards(found: Dict[str, Any]) -> str:
    """Return a sentence for the log about missing guards; "" where none is missing."""
    names = {"landlock": "Landlock", "seccomp": "filter of system calls"}
    lacking = ["no " + text for name, text in names.items() if not found[name]]
    return "The kernel has %s (docs/explanation/security.md)." % " and ".join(lacking) if lacking else ""


def shut_in(read: Sequence[str], write: Sequence[str], drivers: bool = False) -> List[str]:
    """Take from this process all rights but to compute, and to read and write these; return which guards are missing.

    Call it before any thread is started: Landlock holds for this thread and those that it starts.
    """
    if sys.platform != "linux":
        return ["landlock", "seccomp"]
    lacking = []
    no_new_privileges()
    try:
        restrict_files(read, [*write, "/dev/null"])
    except OSError:
        lacking.append("landlock")
    try:
        _drop_capabilities()
        forbid_apart(os.getpid(), drivers=drivers)
    except OSError:
        lacking.append("seccomp")
    return lacking


def _drop_capabilities() -> None:
    """Give up root's rights: this process sets no clock, and signals no processes of other users."""
    header, data = struct.pack("=Ii", CAPABILITIES, 0), ctypes.create_string_buffer(24)
    syscall(syscalls.CAPGET[column()], ctypes.c_char_p(header), data)
    permitted = struct.unpack("=6I", data.raw)[1] & LANDLOCK_OF_FILES
    kept = struct.pack("=6I", permitted, permitted, 0, 0, 0, 0)
    syscall(syscalls.CAPSET[column()], ctypes.c_char_p(header), ctypes.c_char_p(kept))
