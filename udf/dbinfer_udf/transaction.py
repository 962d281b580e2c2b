"""Which transaction, subtransaction and statement this process is in, read from the server's memory without plpy.

The server's clocks of a statement and a transaction are those of the client's message: two transactions in one message
(`psql -c "BEGIN; ...; ROLLBACK; ..."`) share both, and their subtransactions are numbered from 1 again. So we count
the ends of transactions ourselves.
"""

from __future__ import annotations

import ctypes
import struct

from .process import server

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List

UNTOUCHED = b"-"
BUFFER = "dbinfer.transaction_end"
ENTRY_HEAD = 64  # bytes


def transaction_function(gd: Dict[str, Any]) -> Callable[[], int]:
    """Return a function that tells one transaction of this process from all others.

    `gd` keeps what was registered with the server, once a process, for all runtimes that follow each other.
    """
    buffer = gd.get(BUFFER)
    if buffer is None:
        buffer = gd[BUFFER] = _register()
    count = 0

    def transaction() -> int:
        nonlocal count
        if buffer[0] != UNTOUCHED:
            buffer[0] = UNTOUCHED
            count += 1
        return count

    return transaction


def _register() -> Any:
    """Let the server write into a buffer at each end of a transaction; return the buffer.

    No Python may run there. The server's own pg_ltoa(int32 value, char *out) takes what it passes to a callback, the
    number of an event and a pointer, and writes digits, never UNTOUCHED.
    """
    symbols = server()
    # 32 bytes hold the digits of any int32
    buffer = ctypes.create_string_buffer(UNTOUCHED, 32)
    # The server writes there as long as the process lives, whatever becomes of GD.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(buffer))
    register = symbols.RegisterXactCallback
    register.restype, register.argtypes = None, [ctypes.c_void_p, ctypes.c_void_p]
    register(ctypes.cast(symbols.pg_ltoa, ctypes.c_void_p), ctypes.addressof(buffer))
    return buffer


def subtransaction_function() -> Callable[[], int]:
    """Return the server's GetCurrentSubTransactionId; within one transaction no number comes twice."""
    function = server().GetCurrentSubTransactionId
    function.restype, function.argtypes = ctypes.c_uint32, []
    return function  # type: ignore[no-any-return]


def statement_function() -> Callable[[], int]:
    """Return the server's GetCurrentStatementStartTimestamp (microseconds), when the client's message came.

    Parallel workers have the leader's.
    """
    function = server().GetCurrentStatementStartTimestamp
    function.restype, function.argtypes = ctypes.c_int64, []
    return function  # type: ignore[no-any-return]


def moment() -> Dict[str, int]:
    """Return the clocks (microseconds) of this process's transaction and statement."""
    clock = server().GetCurrentTransactionStartTimestamp
    clock.restype, clock.argtypes = ctypes.c_int64, []
    return {"transaction": clock(), "statement": statement_function()()}


def is_in(pid: int, moments: List[int]) -> bool:
    """Return whether another backend of this server is in the transaction, or the statement, of these clocks.

    The server shows them in its table of backends. An entry begins with a counter, the pid, and the times when the
    backend, its transaction and its statement began; their exact places differ between versions. Two transactions in
    one message of a client look like one here.
    """
    symbols = server()
    entry = symbols.pgstat_fetch_stat_beentry
    entry.restype, entry.argtypes = ctypes.c_void_p, [ctypes.c_int]
    for number in range(1, symbols.pgstat_fetch_stat_numbackends() + 1):
        head = ctypes.string_at(entry(number), ENTRY_HEAD)
        if struct.unpack_from("=i", head, 4)[0] == pid:
            return all(struct.pack("=q", clock) in head for clock in moments)
    return False
