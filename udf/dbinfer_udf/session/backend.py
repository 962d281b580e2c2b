"""The session of one backend, which SQL calls: gate > admit > ticket, and the models that it holds.

`plpy` and `GD` come in as arguments. Standard library only until the first row is scored: resolving a model costs no
import of numpy, OpenCV or OpenVINO.
"""

from __future__ import annotations

import os
from time import perf_counter

from .. import fastjson
from ..engine.models import HostEngine
from ..errors import CancelledError, UdfError, sees_hosts
from ..host import interrupts, process
from .resolve import Admission, Gate
from .ticket import Ticket, raise_in_database

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional

# Each statement of a long transaction makes tickets, which otherwise end only with it
MAX_TICKETS = 256


class Session:
    """State of one backend, kept in GD.

    Args:
        gd: PL/Python's GD; its `dbinfer.tickets` holds each ticket under its token.
        digest: sha256 of the runtime's sources.
    """

    def __init__(self, gd: Dict[str, Any], digest: str) -> None:
        self.digest = digest
        self._gd = gd
        self.models: Dict[str, Any] = {}
        self._gate = Gate(gd)
        self.transaction = self._gate.transaction
        self._admission = Admission()
        self._python_runs = interrupts.interrupt_flag()
        # false on PostgreSQL, which queues no interrupts: every row would ask in vain
        self.settles = not isinstance(self._python_runs, interrupts.NoFlag)
        self.orphan = interrupts.orphan_flag()
        # compiled in the registry, and not by this process: see bootstrap.Finder
        self.compiled = bool(getattr(globals()["__loader__"], "compiled", False))
        # in GD, where dbinfer._text finds the ticket of a row with one look-up
        self._tickets: Dict[str, Ticket] = gd.setdefault("dbinfer.tickets", {})
        self._tickets_of = self.transaction()
        self.engine = HostEngine(digest, modules)
        # only the dispatcher leaves anything, so PostgreSQL and the segments pay nothing
        self._handover = _handover(digest) if process.dispatches() else None

    def settle(self) -> None:
        """Stop cancels from queueing interrupts, and raise one that is queued already (see interrupt_flag)."""
        try:
            self._python_runs.value = False
            interrupts.look_for_interrupts()
        except KeyboardInterrupt:
            interrupts.drain_interrupts()
            raise

    def look(self) -> None:
        """End a statement for which nobody waits any more (see orphan_flag)."""
        if interrupts.orphaned():
            raise CancelledError("the server's main process has ended")

    def gate(self, model: Optional[str]) -> Optional[str]:
        """Return the token that this user resolved for the model in this statement, else None."""
        if self.settles:
            self.settle()
        return self._gate.find(model)

    def here(self, token: Optional[str]) -> Optional[str]:
        """Return the token where this process holds its ticket in this transaction, else None."""
        self.settle()
        ticket = self._tickets.get(token or "")
        return token if ticket is not None and ticket.transaction == self.transaction() else None

    def need_model(self, plpy: Any, xml_digest: str, bin_digest: str, settings: str) -> bool:
        """Return whether the host cache lacks the model's files; then parts may be fed."""
        return bool(self._admit(plpy, lambda a: a.need(xml_digest, bin_digest, settings)))

    def feed_part(self, plpy: Any, kind: str, data: bytes) -> None:
        """Take one part of the model that need_model asked for."""
        self._admit(plpy, lambda a: a.feed(kind, data))

    def finish_model(self, plpy: Any) -> None:
        """Put the files that were fed into the cache."""
        self._admit(plpy, lambda a: a.finish())

    def _admit(self, plpy: Any, step: Callable[[Admission], Any]) -> Any:
        self.settle()
        try:
            return step(self._admission)
        except UdfError as err:
            raise_in_database(plpy, err, sees_hosts(self._admission.settings))

    def ticket(
        self, caller: int, model: Optional[str], version_id: int, spec: str, token: Optional[str]
    ) -> str:
        """Make a ticket for an admitted caller and return its token (a new one unless the coordinator gave it)."""
        self.settle()
        name = token or "dbinfer:%d:%s" % (version_id, os.urandom(8).hex())
        self._forget_old_tickets()
        self._tickets[name] = Ticket(self, version_id, spec, self._gd.pop("dbinfer.asked", perf_counter()))
        # a given token is the coordinator's, which dbinfer._here finds and not the gate
        if token is None:
            self._gate.keep(caller, model, name)
            if self._handover is not None:
                ticket = {"caller": caller, "model": model, "version_id": version_id, "spec": spec}
                self._handover.leave(name, ticket)
        return name

    def take(self, plpy: Any, caller: int, model: Optional[str], token: Optional[str]) -> Optional[str]:
        """On the coordinator's reader: return the token under which a ticket of the dispatcher counts here too."""
        self.settle()
        from . import handover

        left = handover.take_ticket(token, caller, model)
        if left is None:
            return None
        spec = fastjson.loads(left["spec"])
        # the dispatcher has fetched the files already, as both processes share the host's cache
        if left["version_id"] != 0:
            self._admit(plpy, lambda a: a.find(spec))
        name = self.ticket(caller, model, left["version_id"], left["spec"], left["token"])
        if token is None:
            self._gate.keep(caller, model, name)
        # _admit cannot do so here, where the table of settings has no rows
        if spec.get("settings", {}).get("usage") == "on":
            self.usage().count(name, caller)
        return name

    def _forget_old_tickets(self) -> None:
        now = self.transaction()
        if now != self._tickets_of or len(self._tickets) >= MAX_TICKETS:
            self._tickets_of = now
            self._tickets.clear()
            self._gate.clear()
            if self._handover is not None:
                self._handover.clear()

    def present(self, spec: Dict[str, Any]) -> Any:
        """Return the cache folder of a model that need_model was asked about; ModelError if it is gone since."""
        return self._admission.present(spec)

    def lose_engine(self, key: str) -> bool:
        """Load a model of the engine here from now on; return False where that is not allowed."""
        model = self.models.get(key)
        if model is None or model.in_process or not self.engine.lose(model.spec, model.model.passing):
            return False
        del self.models[key]
        return True

    def forget(self) -> None:
        """Resolve models anew from now on, because this transaction has changed the registry."""
        self._gate.clear()
        if self._handover is not None:
            self._handover.forget_names()

    def close(self) -> None:
        """Drop everything; another runtime takes over."""
        self._tickets.clear()
        self.models.clear()

    def cache(self, plpy: Any, settings: str, digests: Optional[List[str]]) -> str:
        """Return the facts of this host's cache as JSON; see upkeep.cache."""
        from . import upkeep

        return upkeep.cache(self, plpy, settings, digests)

    def leave(self, plpy: Any, settings: str) -> int:
        """Remove what only this database has put on this host; see upkeep.leave."""
        from . import upkeep

        return upkeep.leave(self, plpy, settings)

    def usage(self) -> Any:
        """Return what counts who used what."""
        from ..host.usage import Usage

        return Usage(self._gd)

    def engines(self, plpy: Any, settings: str, action: str) -> str:
        """Return the facts of this host's engines as JSON; see upkeep.engine_facts."""
        from .upkeep import engine_facts

        self.settle()
        return fastjson.dumps(engine_facts(fastjson.loads(settings), self.digest, modules, action))

    def status(self, plpy: Any, settings: str) -> str:
        """Return what there is to know of this backend and its host, as JSON; see upkeep.status."""
        from . import upkeep

        return upkeep.status(self, settings)


def _handover(digest: str) -> Any:
    # imported only here, as others above: each costs every session memory and part of a millisecond
    from .handover import Handover

    return Handover(modules, digest)


def modules() -> Dict[str, str]:
    """Return the sources of the runtime that this module was loaded from."""
    # the bootstrap's Finder has them; a file loader, as in tests, has none
    return getattr(globals()["__loader__"], "modules", {})
