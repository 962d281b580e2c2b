"""What a training query gives: its columns, classes and keys, looked at before any image is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from dbinfer import boxes
from dbinfer.errors import DataError
from dbinfer.train.data.snapshot import Snapshot

# Oids that are the same in every database: bytea; int8, int2, int4; "char", name, text, bpchar, varchar
BYTEA, NUMBERS, TEXTS = 17, (20, 21, 23), (18, 19, 25, 1042, 1043)
CURE = (
    "Write it as SELECT image, mask, key FROM ..., SELECT image, boxes, key or SELECT image, label, key; image and "
    "mask are bytea, and key, which may be left out, is unique."
)
JSONS = (114, 3802)  # json, jsonb
TASKS = {BYTEA: "segmentation", **dict.fromkeys((*NUMBERS, *TEXTS), "classification")}
# Arrays of rows, as dbinfer.detect returns them: their elements are of a composite type
IS_LIST_OF_ROWS = """
SELECT e.typtype OPERATOR(pg_catalog.=) 'c'
  FROM pg_catalog.pg_type a JOIN pg_catalog.pg_type e ON e.oid OPERATOR(pg_catalog.=) a.typelem
 WHERE a.oid OPERATOR(pg_catalog.=) %(type)s::pg_catalog.oid
"""


EQUALS = "OPERATOR(pg_catalog.=)"
# What sorting goes by as well. Types of extensions (citext) have one of their own; for all others EQUALS does.
FIND_EQUALS = """
SELECT pg_catalog.format('OPERATOR(%%I.%%s)', s.nspname, o.oprname)
  FROM pg_catalog.pg_opclass c
  JOIN pg_catalog.pg_am m ON m.oid OPERATOR(pg_catalog.=) c.opcmethod
  JOIN pg_catalog.pg_amop p ON p.amopfamily OPERATOR(pg_catalog.=) c.opcfamily
  JOIN pg_catalog.pg_operator o ON o.oid OPERATOR(pg_catalog.=) p.amopopr
  JOIN pg_catalog.pg_namespace s ON s.oid OPERATOR(pg_catalog.=) o.oprnamespace
 WHERE m.amname OPERATOR(pg_catalog.=) 'btree' AND c.opcdefault
   AND p.amopstrategy OPERATOR(pg_catalog.=) 3::pg_catalog.int2
   AND c.opcintype OPERATOR(pg_catalog.=) %(type)s::pg_catalog.oid
   AND p.amoplefttype OPERATOR(pg_catalog.=) c.opcintype AND p.amoprighttype OPERATOR(pg_catalog.=) c.opcintype
"""


def columns(snapshot: Snapshot, text: str) -> tuple[str, str, str]:
    """Return the task, which the second column's type tells, and of the third the type's name and `=`.

    The name is empty where there is no third column.
    """
    with snapshot.cursor() as cursor:
        # No row, but the server tells the columns
        cursor.execute(f"SELECT * FROM ({text}) AS q LIMIT 0")
        given = cursor.description or ()
        kinds = [int(column.type_code) for column in given]
        task = _task(cursor, kinds)
        if not task:
            names = ", ".join(column.name for column in given)
            raise DataError(
                f"the query returns the columns {names}, but must return an image and a mask, boxes or label",
                CURE,
            )
        if len(kinds) == 2:
            return task, "", EQUALS
        # By name, because the keys go back to the server as an array of this type
        cursor.execute("SELECT pg_catalog.format_type(%s, NULL)", (kinds[2],))
        name = str(cursor.fetchone()[0])
        cursor.execute(FIND_EQUALS, {"type": kinds[2]})
        found = cursor.fetchone()
        return task, name, str(found[0]) if found else EQUALS


def _task(cursor: Any, kinds: Sequence[int]) -> str:
    """Return the task that columns of these types are for; empty where they are for none."""
    if len(kinds) not in (2, 3) or kinds[0] != BYTEA:
        return ""
    if kinds[1] in JSONS:
        return "detection"
    if kinds[1] in TASKS:
        return TASKS[kinds[1]]
    cursor.execute(IS_LIST_OF_ROWS, {"type": kinds[1]})
    found = cursor.fetchone()
    return "detection" if found and found[0] else ""


def check_tables(snapshot: Snapshot, text: str) -> None:
    """Refuse what no snapshot of this database covers."""
    with snapshot.cursor() as cursor:
        # The plan, not the text: a foreign table may stand behind a view
        cursor.execute(f"EXPLAIN (COSTS OFF) SELECT * FROM ({text}) AS q")
        foreign = [line[0].strip() for line in cursor.fetchall() if "Foreign Scan" in line[0]]
    if foreign:
        raise DataError(
            f"the query reads from another server ({foreign[0]}), where the ranks cannot share one snapshot",
            "Copy the rows into a table of this database first.",
        )


def classes(snapshot: Snapshot, text: str, key: str) -> tuple[str, ...]:
    """Return the distinct labels: whole numbers by size, texts by their characters."""
    names = "image, target, key" if key else "image, target"
    with snapshot.cursor() as cursor:
        cursor.execute(f"SELECT DISTINCT target FROM ({text}) AS q({names}) WHERE target IS NOT NULL")
        # Sorted here: the server's order of texts depends on its collation
        found = sorted(row[0] for row in cursor.fetchall())
    if not found:
        raise DataError("the query returns no rows", CURE)
    return tuple(str(label) for label in found)


def classes_of_boxes(snapshot: Snapshot, text: str, key: str) -> tuple[str, ...]:
    """Return the distinct labels of all boxes; the lists are read for it, and no image."""
    names = "image, target, key" if key else "image, target"
    labels: set[str] = set()
    rows = 0
    with snapshot.cursor("dbinfer_train") as cursor:
        cursor.execute(f"SELECT pg_catalog.to_json(target) FROM ({text}) AS q({names})")
        for (found,) in cursor:
            rows += 1
            labels.update(boxes.labels_of(found, "a row of the query") if found is not None else ())
    if not labels:
        raise DataError(
            "no row of the query has a box" if rows else "the query returns no rows",
            boxes.CURE if rows else CURE,
        )
    return boxes.in_order(labels)


def check_keys(keys: Sequence[Any]) -> None:
    """Raise DataError where a key is missing or twice; the keys are sorted."""
    # An object() equals nothing: the first key has none before it
    for before, key in zip([object(), *keys], keys, strict=False):
        if key is None:
            raise DataError("the key, the third column of the query, is NULL in a row", CURE)
        if key == before:
            raise DataError(f"the key, the third column of the query, is {key!r} in two rows", CURE)
