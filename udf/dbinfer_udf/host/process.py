"""What this process is, read from the server without plpy, and the precisions of its host's processor."""

from __future__ import annotations

import ctypes
import os

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, List, Optional, Tuple

DISPATCH = b"dispatch"
AFTER_9_4 = 90500  # server_version_num
COORDINATOR = -1  # its content id


_symbols: Any = None


def server() -> Any:
    """Return the server's own symbols; calls keep Python's lock, because the server has one thread."""
    global _symbols
    if _symbols is None:  # once, as below
        _symbols = ctypes.PyDLL(None)
    return _symbols


def user_function() -> Callable[[], int]:
    """Return the server's GetUserId: the oid of the user whose rights count now."""
    function = server().GetUserId
    # an oid is unsigned: as ctypes' int, one beyond 2^31 would be negative
    function.restype, function.argtypes = ctypes.c_uint32, []
    return function  # type: ignore[no-any-return]


_ask_user: Optional[Callable[[], int]] = None


def user() -> int:
    """Return the oid of the user whose rights count now; 0 in a process that is no server's."""
    global _ask_user
    if _ask_user is None:  # once: this is asked for each row of a scan
        _ask_user = user_function() if hasattr(server(), "GetUserId") else int
    return _ask_user()


def is_worker() -> bool:
    """Return whether this is a parallel worker of PostgreSQL."""
    symbols = server()
    known = hasattr(symbols, "ParallelWorkerNumber")
    return known and ctypes.c_int.in_dll(symbols, "ParallelWorkerNumber").value >= 0


def session() -> str:
    """Return the session of this process by the server's own word: its number on a cluster, else its process.

    A parallel worker has its session's process in the name under which the server started it.
    """
    if on_cluster():
        return "session%d" % session_number()
    if not is_worker():
        return str(os.getpid())
    # a struct that begins with the name: "parallel worker for PID 4711"
    entry = ctypes.c_void_p.in_dll(server(), "MyBgworkerEntry").value
    return ctypes.string_at(entry).decode().rpartition(" ")[2] if entry else str(os.getpid())


def on_cluster() -> bool:
    """Return whether this process belongs to a Greenplum cluster; a Cloudberry without segments is none."""
    # only Greenplum's family exports it
    return hasattr(server(), "Gp_role") and setting("gp_internal_is_singlenode") != "on"


def content_id() -> Optional[int]:
    """Return the content id of this Greenplum segment (-1: coordinator); None on PostgreSQL."""
    if not on_cluster():
        return None
    value = setting("gp_contentid")
    return None if value is None else int(value)


def setting(name: str) -> Optional[str]:
    """Return a setting of the server as this process has it; None where there is none of that name."""
    option = server().GetConfigOption
    option.restype, option.argtypes = ctypes.c_char_p, [ctypes.c_char_p, ctypes.c_bool, ctypes.c_bool]
    # missing_ok, not restricted: an error of the server would jump over the frames of Python
    value = option(name.encode(), True, False)
    return None if value is None else str(value, "utf-8", "replace")


def is_9_4() -> bool:
    """Return whether the server is a PostgreSQL 9.4 (Greenplum 6).

    PL/Python's errors take no detail and no hint there, and what signal handlers set is one byte.
    """
    return hasattr(server(), "GetConfigOption") and int(setting("server_version_num") or 0) < AFTER_9_4


def server_log(name: str) -> str:
    """Return the path of a file of ours in the server's folder of logs; nothing where it collects none.

    Args:
        name: without .log, or .json where the server writes its own log as JSON, too (since PostgreSQL 15).
    """
    if not hasattr(server(), "GetConfigOption") or setting("logging_collector") != "on":
        return ""
    folder = os.path.abspath(setting("log_directory") or "log")  # a backend works in the data directory
    name += ".json" if "jsonlog" in (setting("log_destination") or "") else ".log"
    return os.path.join(folder, name) if os.access(folder, os.W_OK) else ""


def database() -> Tuple[int, int]:
    """Return the number of this server, which initdb gave it (each segment has its own), and its database's oid.

    Zeros in a process that is no server's.
    """
    symbols = server()
    if not hasattr(symbols, "GetSystemIdentifier"):
        return 0, 0
    number = symbols.GetSystemIdentifier
    number.restype, number.argtypes = ctypes.c_uint64, []
    return number(), ctypes.c_uint32.in_dll(symbols, "MyDatabaseId").value


def dispatches() -> bool:
    """Return whether this is Greenplum's dispatcher: the coordinator's process that the client talks to."""
    symbols = server()
    if not hasattr(symbols, "Gp_role"):
        return False
    # the role's name: its number is 1 in Greenplum 6, where 2 is a segment, and 2 in Greenplum 7 and Cloudberry
    function = symbols.show_gp_role
    function.restype, function.argtypes = ctypes.c_char_p, []
    return bool(function() == DISPATCH)


def session_number() -> int:
    """Return the number of the Greenplum session, which the dispatcher and all its processes have."""
    return ctypes.c_int.in_dll(server(), "gp_session_id").value


def postmaster() -> int:
    """Return the pid of this backend's postmaster; outside of a server that of this process."""
    try:
        return ctypes.c_int.in_dll(server(), "PostmasterPid").value
    except ValueError:
        return os.getpid()


def birth(pid: int) -> str:
    """Return when a process of this host began (clock ticks since boot), or nothing where there is none."""
    try:
        # a pid is given to another process later; pid and birth are not
        with open("/proc/%d/stat" % pid) as stat:
            # behind the last parenthesis: the name before it may hold spaces and parentheses
            return stat.read().rpartition(")")[2].split()[19]
    except OSError:
        return ""


def place_of_process(named: bool) -> str:
    """Return segment, host (if `named`) and pid of this process, for the DETAIL of an error."""
    content = content_id()
    segment = [] if content is None else ["segment %d" % content]
    host = ["host " + os.uname().nodename] if named else []
    return ", ".join([*(segment + host or ["this server"]), "pid %d" % os.getpid()])


def rss_bytes() -> int:
    """Return the resident memory of this process in bytes."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


# Any of these flags is enough; without one OpenVINO computes in f32, or slowly emulates the precision
NEEDS = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16"),
    "f16": ("avx512_fp16", "amx_fp16", "asimdhp"),
}
FLAGS = ("flags", "Features")  # the latter on ARM


def processor(path: str = "/proc/cpuinfo") -> List[str]:
    """Return the processor's name and flags: what was compiled or timed here holds for processors with the same."""
    try:
        with open(path) as cpuinfo:
            # the first core stands for all
            text = cpuinfo.read(4096)
    except OSError:
        return []
    return [line for line in text.splitlines() if line.startswith(("model name", *FLAGS))][:2]


def precisions(path: str = "/proc/cpuinfo") -> List[str]:
    """Return the precisions of NEEDS for which the processor has instructions."""
    have = {
        flag for line in processor(path) if line.startswith(FLAGS) for flag in line.partition(":")[2].split()
    }
    return [precision for precision, names in NEEDS.items() if have.intersection(names)]
