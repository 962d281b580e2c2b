"""The errors that only the engine has; all others pass through it and stay what they are.

UdfError
├── EngineError      58000  system_error: the engine cannot be started or reached; nothing is known of the row
├── RowError(ImageError)    the worker died of this row: `on_error => 'null'` turns it into NULL
│                    54000  program_limit_exceeded: more time or memory than the limits allow
│                    XX000  internal_error: it crashed or was killed
└── CancelledError   57014  query_canceled: the statement was cancelled while it waited
"""

from __future__ import annotations

from ..errors import ImageError, UdfError

# for those who may not see hosts and folders
PUBLIC = "the engine of this host cannot be used"


class EngineError(UdfError):
    """The engine cannot be started or reached; what was asked may be done in the backend itself."""

    sqlstate = "58000"


class RowError(ImageError):
    """The worker that scored this row died of it, or took more than it may."""

    sqlstate = "XX000"


class CancelledError(UdfError):
    """The statement was cancelled, or the session is to end, while it waited for the engine."""

    sqlstate = "57014"
