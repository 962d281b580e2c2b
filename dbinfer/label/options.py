"""What a person is asked to label, where the answers go, and what became of it."""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.base.options import address, check, documented, option
from dbinfer.base.report import Report

# What a button of the page can show, and a person type
LONGEST = 200
ELSEWHERE = (
    "From another machine, go through ssh: ssh -L 8080:127.0.0.1:8080 HOST, with --listen 127.0.0.1:8080."
)


def _names(_: str, text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(","))


@documented
@dataclass(frozen=True)
class LabelOptions:
    """Which rows are labelled, by whom, and into which table.

    Attributes:
        on_page: is told in one sentence where the page is; the address holds the token.
    """

    todo: str = option(
        "",
        "The rows to label: a table that `dbinfer next` made, or results of `dbinfer score`. Default: TABLE_next.",
        metavar="TABLE",
    )
    into: str = option(
        "",
        "The table of answers; it is made if it is not there. Default: TABLE_labels, with --boxes TABLE_boxes.",
        metavar="TABLE",
    )
    boxes: bool = option(False, "Correct boxes of objects, in place of one label for an image.")
    classes: tuple[str, ...] | None = option(
        None,
        "The labels that there are: a,b,c. Default: those of the column `label`, of the model and of earlier answers, "
        "and what is typed.",
        read=_names,
    )
    column: str = option("img", "Column with the images.")
    key: str | None = option(
        None, "Column (or columns: a,b) that identifies a row. Default: those before `rank`, else id."
    )
    who: str = option("", "Who labels, for the column `who`. Default: the role that logged in.")
    listen: str = option(
        "127.0.0.1:0",
        "Where the page is, an address of this machine alone; port 0: a free one.",
        metavar="ADDRESS:PORT",
    )
    on_page: Callable[[str], Any] = print

    def __post_init__(self) -> None:
        check(self)
        self.address()
        for name in self.classes or ():
            check_label(name)
        if self.classes is not None and len(set(self.classes)) < len(self.classes):
            raise UsageError(f"classes are {', '.join(self.classes)}, but each must be there once")

    def address(self) -> tuple[str, int]:
        """Return the address to listen on and its port.

        Raises:
            UsageError: it is none, or other machines reach it.
        """
        host, port = address(self.listen) or ("", 0)
        host = "127.0.0.1" if host == "localhost" else host
        if not _loopback(host):
            raise UsageError(
                f"listen is {self.listen!r}, but must be an address of this machine alone and a port, such as "
                "127.0.0.1:8080",
                ELSEWHERE,
            )
        return host, port


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_label(text: object) -> str:
    """Return the label.

    Raises:
        UsageError: it is none that a table can hold and a page can show.
    """
    if not isinstance(text, str) or not text.strip() or len(text) > LONGEST or "\0" in text:
        shown = repr(text) if len(repr(text)) <= LONGEST else f"{repr(text)[:LONGEST]}..."
        raise UsageError(f"a label is {shown}, but must be a text of 1 to {LONGEST} signs")
    return text


@dataclass(frozen=True)
class LabelReport(Report):
    """What was labelled.

    Attributes:
        into: the table, with the columns of the key, label (or boxes), proposal, who and at.
        rows: that were to be labelled when the page was opened.
        labelled: of them by this run; corrected: of these other than the proposal; left: rows still without one.
    """

    into: str
    rows: int
    labelled: int
    corrected: int
    left: int
