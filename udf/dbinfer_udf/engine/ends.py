"""How the requests ended whose workers died, kept for their clients to ask."""

from __future__ import annotations

from collections import OrderedDict
from typing import Dict, Optional

MOST = 1000


class Ends:
    """The last ends of one model's requests."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, Dict[str, str]] = OrderedDict()

    def note(self, request: str, why: Dict[str, str]) -> None:
        """Keep why a request (in hex; "" for none) ended."""
        if request:
            self._known[request] = why
            while len(self._known) > MOST:
                self._known.popitem(last=False)

    def of(self, request: str) -> Optional[Dict[str, str]]:
        """Return why it ended; None where nothing is known."""
        return self._known.get(request)
