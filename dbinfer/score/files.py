"""predict_files: sends local image files to a database function, one by one."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.connection import one, sentence, session
from dbinfer.errors import UsageError
from dbinfer.imagefiles import Found, Refused, read_ahead
from dbinfer.score.functions import Arguments, Function, choose

IMAGE_STATES = ("22P03", "54000")


@dataclass(frozen=True)
class Answer:
    """What the database said of one file.

    Attributes:
        file: as it was named; function: that was called.
        value: JSON-like (numbers, lists, a dict of a composite's fields), or bytes; None with an error.
        error: one sentence on why this file has no result, or empty.
        milliseconds: from sending the image to having the result.
    """

    file: Path
    function: str
    value: Any = None
    error: str = ""
    milliseconds: float = 0.0


def predict_files(
    files: Sequence[Path],
    function: str | None = None,
    arguments: Arguments | None = None,
    dsn: str | None = None,
    need_folder: bool = False,
) -> Iterator[Answer]:
    """Yield the result for each file; a file that cannot be used yields its error, and the others go on.

    Args:
        function: None: the one for the task of the model.
        need_folder: the caller has no place for masks: refuse functions that return bytes.

    Raises:
        DataError: the server refused for another reason than the image: unknown model, no permission.
        UsageError: no such function, or one that returns bytes with need_folder.
    """
    arguments = arguments or Arguments()
    with session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        chosen = choose(cur, function, arguments.model)
        if chosen.binary and need_folder:
            raise UsageError(
                f"{chosen.name} makes files: there is no folder for them.", "Name one with --out."
            )
        for file, outcome in zip(files, read_ahead(Found(f, str(f)) for f in files), strict=True):
            if isinstance(outcome, Refused):
                yield Answer(file, chosen.name, error=outcome.reason)
            else:
                yield _ask(cur, file, outcome[1], chosen, arguments)


def _ask(cur: Cursor, file: Path, data: bytes, function: Function, arguments: Arguments) -> Answer:
    begin = time.perf_counter()
    call = function.call(sql.Literal(psycopg2.Binary(data)), arguments)
    query = sql.SQL("SELECT {}" if function.binary else "SELECT to_json({})").format(call)
    try:
        cur.execute(query)
    except psycopg2.Error as err:
        if err.pgcode not in IMAGE_STATES:
            raise
        return Answer(file, function.name, error=sentence(err).message)
    value = one(cur)
    milliseconds = (time.perf_counter() - begin) * 1000
    return Answer(file, function.name, bytes(value) if function.binary else value, "", milliseconds)
