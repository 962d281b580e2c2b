"""Options that are stated once: a dataclass gives their names, types, defaults and help to the shell and to Python."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterator
from dataclasses import Field, dataclass, field, fields
from typing import Any, TypeVar

from dbinfer.base.errors import UsageError

Value = TypeVar("Value")
Class = TypeVar("Class", bound=type)


@dataclass(frozen=True)
class Shell:
    """What a field of options says about itself besides its type and default.

    Attributes:
        help: one or two sentences, for `--help` and for the class's docstring.
        spellings: in the shell, where they are not `--name-of-the-field`; of a bool with both, `--yes/--no`.
        choices: the values that there are.
        least: the smallest value.
        metavar: what `--help` shows for the value.
        read: makes the value of the option's name and the text that was typed.
        typed: its type in the shell, if that is neither the field's nor the text that `read` takes.
        needed: the shell requires it, whatever its default.
    """

    help: str
    spellings: tuple[str, ...] = ()
    choices: tuple[str, ...] = ()
    least: float | None = None
    metavar: str | None = None
    read: Callable[[str, Any], Any] | None = None
    typed: Any = None
    needed: bool = False


def option(default: Value, help: str, *spellings: str, **more: Any) -> Value:
    """Return a field with a default; `{choices}` in the help stands for the choices; `more`: attributes of Shell."""
    made: Value = field(default=default, metadata={"shell": _shell(help, spellings, more)})
    return made


def mapping(help: str, *spellings: str, **more: Any) -> Any:
    """Return a field whose default is an empty dict."""
    return field(default_factory=dict, metadata={"shell": _shell(help, spellings, more)})


def _shell(help: str, spellings: tuple[str, ...], more: dict[str, Any]) -> Shell:
    *first, last = more.get("choices") or ("",)
    said = help.replace("{choices}", f"{', '.join(first)} or {last}" if first else last)
    return Shell(said, spellings, **more)


def options_of(options: Any) -> Iterator[tuple[Field[Any], Shell]]:
    """Yield the fields of a class of options, or of an object of it, that the shell has too."""
    for entry in fields(options):
        if "shell" in entry.metadata:
            yield entry, entry.metadata["shell"]


def documented(kind: Class) -> Class:
    """Add the help of its fields to the docstring of a class of options."""
    lines = [f"{entry.name}: {shell.help}" for entry, shell in options_of(kind)]
    told = [textwrap.fill(line, 108, subsequent_indent="    ") for line in lines]
    head = (kind.__doc__ or "").rstrip()
    between = "" if "Attributes:" in head else "\n\n    Attributes:"
    kind.__doc__ = f"{head}{between}\n" + textwrap.indent("\n".join(told), " " * 8) + "\n    "
    return kind


def check(options: Any) -> None:
    """Raise UsageError for a value that is not among its choices, or below its least; None always passes."""
    for entry, shell in options_of(options):
        value = getattr(options, entry.name)
        if value is None:
            continue
        if shell.choices and value not in shell.choices:
            raise UsageError(f"{entry.name} is {value!r}, but must be one of {', '.join(shell.choices)}")
        if shell.least is not None and value < shell.least:
            raise UsageError(f"{entry.name} is {value}, but must be at least {shell.least}")


def address(text: str) -> tuple[str, int] | None:
    """Return host and port of an option HOST:PORT, or [HOST]:PORT for IPv6; None where it is none."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    good = host and port.isascii() and port.isdecimal() and int(port) < 1 << 16
    return (host, int(port)) if good else None


def address_text(host: str, port: int) -> str:
    """Return HOST:PORT, as URLs have it."""
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
