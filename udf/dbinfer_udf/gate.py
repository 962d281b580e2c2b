"""The gate: what the running statement has resolved already, by model and by the user who asked."""

from __future__ import annotations

from . import process, transaction

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Tuple


class Gate:
    """Tokens that hold for the running statement, user and subtransaction, and nothing longer.

    A subtransaction may end by taking a change of the registry back, so what was resolved in one counts in no other.

    Args:
        gd: PL/Python's GD.
    """

    def __init__(self, gd: Dict[str, Any]) -> None:
        self.transaction = transaction.transaction_function(gd)
        self._user = process.user_function()
        self._statement = transaction.statement_function()
        self._subtransaction = transaction.subtransaction_function()
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
        # the user of the note: GetUserId is the owner here, within a definer function
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
