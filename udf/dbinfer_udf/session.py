"""The session of one backend: what it has resolved, which models it holds, and the tickets rows are scored under.

`plpy` and `GD` come in as arguments. Standard library only until the first row is scored: resolving a model costs no
import of numpy, OpenCV or OpenVINO.
"""

from __future__ import annotations

import json
import secrets
import sys
from typing import Any, Dict, Optional, Tuple

from . import cache, place
from .errors import UdfError
from .ticket import Ticket, report

MAX_TICKETS = 256


class Session:
    """State of one backend, kept in GD.

    Args:
        gd: PL/Python's GD; its `dbinfer.tickets` holds each ticket under its token.
        digest: sha256 of the runtime's sources.
    """

    def __init__(self, gd: Dict[str, Any], digest: str) -> None:
        self.gd = gd
        self.digest = digest
        self.models: Dict[str, Any] = {}
        self._user = place.user_function()
        self._statement_now = place.clock_function("GetCurrentStatementStartTimestamp")
        self.transaction_now = place.clock_function("GetCurrentTransactionStartTimestamp")
        self._subtransaction = place.subtransaction_function()
        self._python_runs = place.interrupt_flag()
        self._changed = 0
        self._moment = self._now()
        self._transaction = self._moment[1]
        self._resolved: Dict[Tuple[Optional[str], int], str] = {}
        self._tickets: Dict[str, Ticket] = gd.setdefault("dbinfer.tickets", {})
        self._entries: Dict[str, cache.Entry] = {}
        self._writer: Optional[cache.Writer] = None

    def settle(self) -> None:
        """Let no cancel queue an interrupt from now on, and raise one that is queued already (see interrupt_flag)."""
        try:
            self._python_runs.value = False
            place.look_for_interrupts()
        except KeyboardInterrupt:
            place.drain_interrupts()
            raise

    def gate(self, model: Optional[str]) -> Optional[str]:
        """Return the token that this user resolved for the model in this statement; else note who asks."""
        self.settle()
        key = (model, self._user())
        moment = self._now()
        if moment != self._moment:
            self._moment = moment
            self._resolved.clear()
        token = self._resolved.get(key)
        if token is None:
            self.gd["dbinfer.pending"] = (*key, moment[1], self._subtransaction())
        return token

    def _now(self) -> Tuple[int, ...]:
        """Return what names this statement; after a change of the registry, also its savepoint."""
        statement, transaction = self._statement_now(), self.transaction_now()
        if transaction == self._changed:
            return statement, transaction, self._subtransaction()
        return statement, transaction

    def here(self, token: Optional[str]) -> Optional[str]:
        """Return the token where this process holds its ticket in this transaction; else note who asks."""
        self.settle()
        ticket = self._tickets.get(token or "")
        now = self.transaction_now()
        if ticket is not None and ticket.transaction == now:
            return token
        self.gd["dbinfer.pending"] = (token, self._user(), now, self._subtransaction())
        return None

    def need_model(self, plpy: Any, xml_digest: str, bin_digest: str, settings: str) -> bool:
        """Return whether the host cache lacks the model's files; then parts may be fed."""
        self.settle()
        try:
            folder = json.loads(settings).get("cache_dir") or cache.default_folder()
            entry = cache.Entry(cache.open_cache(folder), xml_digest, bin_digest)
            self._entries[xml_digest + bin_digest] = entry
            if entry.good():
                return False
            self._writer = cache.Writer(entry)
        except UdfError as err:
            report(plpy, err)
        return True

    def feed_part(self, plpy: Any, kind: str, data: bytes) -> None:
        """Take one part of the model that need_model asked for."""
        self.settle()
        try:
            self._writer.write(kind, data)  # type: ignore[union-attr]
        except UdfError as err:
            report(plpy, err)

    def finish_model(self, plpy: Any) -> None:
        """Put the files that were fed into the cache."""
        self.settle()
        writer, self._writer = self._writer, None
        try:
            writer.finish()  # type: ignore[union-attr]
        except UdfError as err:
            report(plpy, err)

    def ticket(
        self, caller: int, model: Optional[str], version_id: int, facts: str, token: Optional[str]
    ) -> str:
        """Make a ticket for an admitted caller and return its token (a new one unless the coordinator gave it)."""
        self.settle()
        name = token or "dbinfer:%d:%s" % (version_id, secrets.token_hex(8))
        self._forget_old_tickets()
        self._tickets[name] = Ticket(self, version_id, facts)
        if token is None:
            self._resolved[(model, caller)] = name
        return name

    def _forget_old_tickets(self) -> None:
        now = self.transaction_now()
        if now != self._transaction or len(self._tickets) >= MAX_TICKETS:
            self._transaction = now
            self._tickets.clear()
            self._resolved.clear()

    def entry(self, xml_digest: str, bin_digest: str) -> cache.Entry:
        """Return the cache folder of a model that need_model was asked about."""
        return self._entries[xml_digest + bin_digest]

    def forget(self) -> None:
        """Resolve anew from now on: this transaction changes the registry, and its savepoints may take that back."""
        self._resolved.clear()
        self._changed = self.transaction_now()

    def close(self) -> None:
        """Drop everything; another runtime takes over."""
        self._tickets.clear()
        self.models.clear()

    def status(self, plpy: Any, settings: str) -> str:
        """Return the facts of this backend and its host as JSON."""
        from .status import collect

        try:
            return json.dumps(collect(self, json.loads(settings)))
        except Exception as err:
            return json.dumps(
                {"problem": "%s: %s" % (type(err).__name__, err), "python": sys.version.split()[0]}
            )
