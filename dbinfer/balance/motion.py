"""Finds in a statement's plan the images that leave their segments before they are scored."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from psycopg2.extensions import connection as Connection

from dbinfer.backends import Check

# What scores, and the place of the image among its arguments
CALLS = {
    "_output": 0,
    "_output_bytes": 0,
    "_text": 1,
    "_bytes": 1,
    "_text_of_row": 2,
    "_draw": 0,
    "draw": 0,
    "_take": 3,
}
BEGIN = re.compile(rf"\bdbinfer\.({'|'.join(CALLS)})\(")
TOKEN = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|[(),]|[^'\"(),]+")
LITERAL = re.compile(r"'(?:[^']|'')*'(?:::\w+)?")
NAME = r'(?:[^\W\d]\w*|"(?:[^"]|"")*")'
COLUMN = re.compile(rf"(?:{NAME}\.)?({NAME})")
CURE = (
    "Score in an inner query and do everything else outside: "
    "SELECT sum(p[1]) FROM (SELECT dbinfer.predict(img, 'model') AS p FROM images OFFSET 0) s"
)


@dataclass(frozen=True)
class Call:
    """A call that scores, as a plan shows it: its text, and the image in it, whose columns may be renamed below."""

    text: str
    image: str
    renamed: bool = field(default=False, compare=False)

    @property
    def columns(self) -> set[str]:
        """Return the names in the image's expression, without the tables'."""
        return set(COLUMN.findall(LITERAL.sub("", self.image)))


def moving_images(conn: Connection, query: str) -> Check:
    """Return the check of a statement, which is planned and not run."""
    with conn.cursor() as cur:
        cur.execute("EXPLAIN (VERBOSE, FORMAT JSON) " + query)
        ((found,),) = cur.fetchall()
    return check(found[0]["Plan"])


def check(plan: dict[str, Any]) -> Check:
    """Return what to say of a plan."""
    if not _calls_below(plan):
        hidden = "A function that the planner does not inline (plpgsql, STRICT) hides its calls."
        return Check("query", True, "its plan shows no call that scores images", hidden)
    found = sorted(set(_moves(plan, frozenset())))
    if not found:
        return Check("query", True, "images are scored where they lie")
    return Check("query", False, "images move before they are scored: " + "; ".join(found), CURE)


def _moves(node: dict[str, Any], above: frozenset[Call]) -> Iterator[str]:
    """Say what moves images to calls above it; calls that the plan below it has, too, were computed there."""
    kind = node["Node Type"]
    if "Motion" in kind:
        sent = {match[1] for item in node.get("Output", ()) if (match := COLUMN.fullmatch(item))}
        where = "to one process" if kind == "Gather Motion" else "between segments"
        for call in above - _calls_below(node):
            if call.columns & sent or (call.renamed and sent):
                yield f"{call.image} {where} ({kind}, of which the planner expects {node['Plan Rows']} rows)"
    here = frozenset(_below_subquery(call, node) for call in above | _calls_of(node))
    for part in node.get("Plans", ()):
        # the value of a subquery is no row of the outer one
        apart = part.get("Parent Relationship") in ("InitPlan", "SubPlan")
        yield from _moves(part, frozenset() if apart else here)


def _below_subquery(call: Call, node: dict[str, Any]) -> Call:
    renames = node["Node Type"] == "Subquery Scan" and f"{node['Alias']}." in call.image
    return replace(call, renamed=True) if renames else call


def _calls_below(node: dict[str, Any]) -> frozenset[Call]:
    return _calls_of(node).union(*(_calls_below(part) for part in node.get("Plans", ())))


def _calls_of(node: dict[str, Any]) -> frozenset[Call]:
    """Return the calls in a node's own expressions."""
    values = [value for name, value in node.items() if name != "Plans"]
    texts = [text for value in values for text in (value if isinstance(value, list) else [value])]
    return frozenset(call for text in texts if isinstance(text, str) for call in _calls_in(text))


def _calls_in(text: str) -> Iterator[Call]:
    for begin in BEGIN.finditer(text):
        arguments = _arguments(text, begin.end())
        yield Call(f"{begin[1]}({','.join(arguments)})", arguments[CALLS[begin[1]]].strip())


def _arguments(text: str, begin: int) -> list[str]:
    """Return the arguments of the call whose parenthesis opens before `begin`."""
    found, depth = [""], 0
    for token in TOKEN.finditer(text, begin):
        if token[0] == ")" and depth == 0:
            break
        depth += (token[0] == "(") - (token[0] == ")")
        if token[0] == "," and depth == 0:
            found.append("")
        else:
            found[-1] += token[0]
    return found
