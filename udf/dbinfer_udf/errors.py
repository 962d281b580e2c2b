"""The errors of the runtime in backends and in the engine, with what PostgreSQL needs to report them well.

Exception
  UdfError             22000  data_exception; base of all
    ImageError         22P03  invalid_binary_representation: empty, not an image, damaged, cut off
                       54000  program_limit_exceeded: an image above the size limits
      RowError         54000  the engine's worker took more time or memory of this row than the limits allow
                       XX000  internal_error: it crashed or was killed
    ModelError         55000  object_not_in_prerequisite_state: a model or its files cannot be used
    UsageError         22023  invalid_parameter_value: the call's arguments are wrong
    StoreError         58030  io_error: a store of images cannot be read; nothing is known of the row
    EngineError        58000  system_error: the engine cannot be started or reached; nothing is known of the row
    CancelledError     57014  query_canceled: the statement was cancelled while it waited

`on_error => 'null'` turns an ImageError, and nothing else, into NULL.
"""

from __future__ import annotations

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Dict

ADMINISTRATORS = "An administrator sees what is wrong: dbinfer doctor"


def sees_hosts(settings: Dict[str, str]) -> bool:
    """Return whether the caller is an administrator: dbinfer._admit has noted it among the settings."""
    return settings.get("hosts") == "true"


class UdfError(Exception):
    """A mistake or an obstacle that the caller of a SQL function can do something about.

    Args:
        message: one sentence: what was wrong, and which value.
        detail: more facts, shown as DETAIL.
        hint: what to do about it, shown as HINT.
        sqlstate: five characters; the class's own where empty.
        public: the message for those who are no administrators, where the message names a host or a folder.
    """

    sqlstate = "22000"
    # whether the error is about a folder that belongs to somebody else
    foreign = False

    def __init__(
        self, message: str, detail: str = "", hint: str = "", sqlstate: str = "", public: str = ""
    ) -> None:
        super().__init__(message)
        self.message = message
        self.detail = detail
        self.hint = hint
        self.public = public
        if sqlstate:
            self.sqlstate = sqlstate

    def for_everybody(self) -> UdfError:
        """Return the error without what names a host or a folder."""
        if not self.public:
            return self
        return UdfError(self.public, hint=ADMINISTRATORS, sqlstate=self.sqlstate)

    def of_row(self, number: int) -> UdfError:
        """Return the error with the key of its row in front."""
        return self._as("row %d: %s" % (number, self.message), self.hint)

    def with_hint(self, hint: str) -> UdfError:
        """Return the error with one more thing to do about it."""
        return self._as(self.message, "%s %s" % (self.hint, hint) if self.hint else hint)

    def _as(self, message: str, hint: str) -> UdfError:
        return type(self)(message, self.detail, hint, self.sqlstate, self.public)


class ImageError(UdfError):
    """The image of one row cannot be used."""

    sqlstate = "22P03"


class ModelError(UdfError):
    """A model, its files or the libraries that run it cannot be used."""

    sqlstate = "55000"


class UsageError(UdfError):
    """An argument of the SQL function is wrong."""

    sqlstate = "22023"


class StoreError(UdfError):
    """A store of images cannot be reached, or refuses what was asked of it."""

    sqlstate = "58030"


# What users see who may not see hosts and folders
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
