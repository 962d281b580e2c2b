"""The errors a user can see, each one sentence, with a hint what to do about it.

DbinferError
├── UsageError         a wrong call (exit 2)
├── ServerError        the embedded server, or a server that cannot be reached
├── InstallError       install, upgrade, uninstall
├── RegistryError      models, versions, aliases, grants
├── ModelFileError     an IR, .bin or source model that cannot be used
├── ConvertError       a conversion that failed or is not exact enough
├── DataError          images, folders, queries
└── TrainError         training, ranks, checkpoints
"""

from __future__ import annotations

import re
from collections.abc import Sequence

# C0 (but tab and newline), DEL and C1, which control a terminal; what turns the direction of writing; and halves of
# signs, as names of files hold them that are not UTF-8: no terminal takes those
HARMFUL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Return a stranger's text made safe for a terminal: what would control it is shown as \\x1b or \\u202e."""
    return HARMFUL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def one_line(text: str) -> str:
    """Return a stranger's text as `harmless` does, and on one line, so that it cannot pretend to be another message."""
    return harmless(text).replace("\n", "\\n")


class DbinferError(Exception):
    """A mistake or an obstacle that the user can do something about; its texts are safe to show on a terminal.

    Args:
        message: one sentence: what was wrong, and which value.
        hint: what to do about it; shown on a line of its own.
        words: options with example values that the call lacks; the command line shows the completed call.

    Attributes:
        exit_code: of the command line.
        when_denied: the hint if the server denies permission and gives no hint of its own.
    """

    exit_code = 1
    when_denied = ""

    def __init__(self, message: str, hint: str = "", words: Sequence[str] = ()) -> None:
        super().__init__(message)
        # names of files and models, and the server's and libraries' words, come from strangers
        self.message = harmless(message)
        self.hint = harmless(hint)
        self.words = tuple(map(harmless, words))

    def __str__(self) -> str:
        return f"{self.message}\n{self.hint}" if self.hint else self.message


class UsageError(DbinferError):
    """Options that contradict each other or cannot be understood."""

    exit_code = 2


class ServerError(DbinferError):
    """The database server cannot be started, reached or used."""


class InstallError(DbinferError):
    """The database objects of dbinfer cannot be made, upgraded or removed."""

    when_denied = "Connect as a superuser: creating PL/Python functions takes one."


class RegistryError(DbinferError):
    """A model, version, alias or grant is missing or not allowed."""

    when_denied = "To deploy and manage models, your role needs: GRANT dbinfer_admin TO your_role;"


class ModelFileError(DbinferError):
    """A model file is broken, incomplete or of an unsupported kind."""


class ConvertError(DbinferError):
    """A model could not be converted, or the result differs from its source."""


class DataError(DbinferError):
    """Images, folders or queries that cannot be used."""


class TrainError(DbinferError):
    """Training cannot start, or stopped."""
