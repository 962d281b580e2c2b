"""Which transaction and statement this is, which models it has resolved already (the gate), and how models get into the
host cache (admission).

The server's clocks of a statement and a transaction are those of the client's message: two transactions in one message
(`psql -c "BEGIN; ...; ROLLBACK; ..."`) share both, and their subtransactions are numbered from 1 again. So we count
the ends of transactions ourselves.
"""

from __future__ import annotations

import ctypes
import struct
from time import monotonic

from .. import fastjson
from ..host import cache, process
from ..host.process import server

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Tuple

UNTOUCHED = b"-"
BUFFER = "dbinfer.transaction_end"
ENTRY_HEAD = 64  # bytes


def transaction_function(gd: Dict[str, Any]) -> Callable[[], int]:
    """Return a function that returns another number for each transaction of this process.

    `gd` keeps what was registered with the server, once in a process, for all runtimes that follow each other.
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
    """Make the server write into a buffer at each end of a transaction; return the buffer.

    No Python may run there. The server's own pg_ltoa(int32 value, char *out) takes what a callback gets, the number of
    an event and a pointer, and writes digits, never UNTOUCHED.
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
    """Return the server's GetCurrentSubTransactionId, whose numbers are unique within a transaction."""
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


def clocks() -> Dict[str, int]:
    """Return the clocks (microseconds) of this process's transaction and statement."""
    clock = server().GetCurrentTransactionStartTimestamp
    clock.restype, clock.argtypes = ctypes.c_int64, []
    return {"transaction": clock(), "statement": statement_function()()}


def is_in(pid: int, moments: List[int]) -> bool:
    """Return whether another backend of this server is in the transaction, or the statement, of these clocks.

    The server's table of backends has these clocks. An entry begins with a counter, the pid, and the times when the
    backend, its transaction and its statement began, whose exact places differ between versions. Two transactions in
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


class Gate:
    """Tokens that hold for the running statement, user and subtransaction, and nothing longer.

    A subtransaction may end by undoing a change of the registry, so what was resolved in one counts in no other.

    Args:
        gd: PL/Python's GD.
    """

    def __init__(self, gd: Dict[str, Any]) -> None:
        self.transaction = transaction_function(gd)
        self._user = process.user_function()
        self._statement = statement_function()
        self._subtransaction = subtransaction_function()
        self._moment: Tuple[int, int] = (-1, -1)
        self._resolved: Dict[Tuple[int, int, Optional[str]], str] = {}

    def find(self, model: Optional[str]) -> Optional[str]:
        """Return the token that this user resolved for the model in this statement and subtransaction."""
        # as _follow, without the call: every row comes here
        moment = self.transaction(), self._statement()
        if moment != self._moment:
            self._moment = moment
            self._resolved.clear()
        return self._resolved.get((self._subtransaction(), self._user(), model))

    def keep(self, user: int, model: Optional[str], token: str) -> None:
        """Keep a token for the rest of the statement."""
        self._follow()
        # `user` is that of the note, because within a definer function GetUserId is the owner
        self._resolved[self._subtransaction(), user, model] = token

    def clear(self) -> None:
        """Forget all tokens."""
        self._resolved.clear()

    def _follow(self) -> None:
        # both: a procedure ends transactions within one statement, and a transaction has many statements
        moment = self.transaction(), self._statement()
        if moment != self._moment:
            self._moment = moment
            self._resolved.clear()


class Admission:
    """Brings models into the host cache, one at a time: `need`, `feed` for each part, `finish`.

    Attributes:
        settings: of the caller that was last asked about.
    """

    def __init__(self) -> None:
        self._entries: Dict[str, cache.Entry] = {}
        self._writer: Any = None
        self.settings: Dict[str, str] = {}
        self._marked: Dict[str, float] = {}

    def need(self, xml_digest: str, bin_digest: str, settings: str) -> bool:
        """Return whether the host cache lacks the model's files; then parts may be fed."""
        self._abandon()
        self.settings = fastjson.loads(settings)
        entry = self._entry(xml_digest, bin_digest, self.settings)
        if entry.good():
            return False
        # only here, as in `finish`: most sessions find the files
        from ..host.housekeeping import Writer

        self._writer = Writer(entry)
        return True

    def _abandon(self) -> None:
        """Remove what a statement that was cancelled has fed."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    def find(self, spec: Dict[str, Any]) -> None:
        """Make the model of a ticket's spec known to `entry`.

        Raises:
            ModelError: its files are not in the host cache, or damaged.
        """
        self.settings = spec["settings"]
        self._entry(spec["xml_digest"], spec["bin_digest"], self.settings)
        self.present(spec)

    def present(self, spec: Dict[str, Any]) -> cache.Entry:
        """Return the cache folder of a model that is known here, marked as used.

        Raises:
            ModelError: its files are not in the host cache, or damaged.
        """
        entry = self.entry(spec["xml_digest"], spec["bin_digest"])
        cache.mark_used(entry.folder)
        if not entry.good():
            raise cache.files_gone('model "%s"' % spec["model"])
        return entry

    def _entry(self, xml_digest: str, bin_digest: str, settings: Dict[str, str]) -> cache.Entry:
        folder = settings.get("cache_dir") or cache.default_folder()
        entry = cache.Entry(cache.open_cache(folder), xml_digest, bin_digest)
        self._entries[xml_digest + bin_digest] = entry
        # before the files are looked for, because they must not be removed after that
        self._mark_used(entry)
        return entry

    def _mark_used(self, entry: cache.Entry) -> None:
        now = monotonic()
        if now - self._marked.get(entry.folder, -cache.MARK_SECONDS) >= cache.MARK_SECONDS:
            self._marked[entry.folder] = now
            cache.mark_used(entry.folder)

    def feed(self, kind: str, data: bytes) -> None:
        """Take one part (kind `xml` or `bin`)."""
        self._writer.write(kind, data)

    def finish(self) -> None:
        """Put the files that were fed into the cache, and keep the cache within its limit."""
        # forgotten first, because the files are gone if finish() fails
        writer, self._writer = self._writer, None
        writer.finish()
        # marked again, because the folder is new
        cache.mark_used(writer.entry.folder)
        from ..host import housekeeping

        housekeeping.make_room(writer.entry, self.settings)

    def entry(self, xml_digest: str, bin_digest: str) -> cache.Entry:
        """Return the cache folder of a model that `need` was asked about."""
        return self._entries[xml_digest + bin_digest]
