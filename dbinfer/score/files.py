"""predict: sends local image files to a database function, one at a time."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.progress import OnProgress, Progress, silent
from dbinfer.base.report import Report
from dbinfer.database.connection import one, sentence, session
from dbinfer.images.files import Found, Refused, read_ahead
from dbinfer.score.options import Arguments, Function, choose

# What the functions raise for a bad image, or for one that its store does not have (sql/functions); any other state is
# about the call or the server
IMAGE_STATES = ("22P03", "54000", "P0002")


@documented
@dataclass(frozen=True)
class PredictOptions:
    """Which function is asked, and where its files go.

    Attributes:
        files_only: without `out` refuse a function that returns bytes; for callers that can only print.
    """

    function: str | None = option(
        None, "classify, classify_top, predict, segment, embed, ... Default: the one for the model's task."
    )
    model: str | None = option(None, "name, name@3 or name@alias. Default: the default model.")
    top: int = option(5, "How many classes classify_top returns.", least=1)
    out: Path | None = option(None, "Folder for masks (segment) and tensors.")
    files_only: bool = False


@dataclass(frozen=True)
class Answer:
    """What the database answered for one file.

    Attributes:
        file: as the caller named it.
        value: numbers, lists, a dict of a composite's fields, bytes, or the path of a file; None with an error.
        error: one sentence on why this file has no result, or empty.
        milliseconds: from sending the image to having the result.
    """

    file: Path
    value: Any = None
    error: str = ""
    milliseconds: float = 0.0


@dataclass(frozen=True)
class PredictReport(Report):
    """What the database answered for all files.

    Attributes:
        function, model: what was called; answers: one per file, in the same order.
    """

    function: str
    model: str | None
    answers: tuple[Answer, ...]

    @property
    def ok(self) -> bool:
        """Return whether every file has a result."""
        return not any(answer.error for answer in self.answers)


def predict(
    files: Sequence[Path | str] | Path | str,
    options: PredictOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> PredictReport:
    """Send image files to a function of the database; nothing is stored there.

    A file that cannot be used gets its error, and the others go on.

    Raises:
        DataError: the server refused for another reason than the image: unknown model, no permission.
        UsageError: no such function, or two files of one name for one folder.
    """
    options = options or PredictOptions()
    paths = [Path(file) for file in ([files] if isinstance(files, Path | str) else files)]
    if options.out is not None:
        _check_names(paths, options.out)
    # Each file a transaction of its own: an error in one would abort the others
    with session(dsn, autocommit=True) as conn, conn.cursor() as cur:
        function = choose(cur, options.function, options.model)
        if function.binary and options.files_only and options.out is None:
            raise UsageError(
                f"{function.name} returns files, and no folder is named for them",
                "Name one with --out, for example --out results.",
            )
        answers = []
        for answer in _ask_all(cur, paths, function, Arguments(options.model, top=options.top)):
            answers.append(_keep(answer, function, options.out))
            progress(Progress("asking", len(answers), len(paths), "images"))
    return PredictReport(function.name, options.model, tuple(answers))


def _check_names(files: Sequence[Path], out: Path) -> None:
    """Refuse two files of one name: their results would overwrite each other."""
    for name, count in Counter(file.name for file in files).most_common(1):
        if count > 1:
            raise UsageError(
                f"{count} of the files are named {name!r}; their results would overwrite each other in {out}",
                "Score one folder at a time, each with its own --out.",
            )


def _ask_all(
    cur: Cursor, files: Sequence[Path], function: Function, arguments: Arguments
) -> Iterator[Answer]:
    for file, outcome in zip(files, read_ahead(Found(f, str(f)) for f in files), strict=True):
        if isinstance(outcome, Refused):
            yield Answer(file, error=outcome.reason)
        else:
            yield _ask(cur, file, outcome[1], function, arguments)


def _ask(cur: Cursor, file: Path, data: bytes, function: Function, arguments: Arguments) -> Answer:
    begin = time.perf_counter()
    call = function.call(sql.Literal(psycopg2.Binary(data)), arguments)
    # As JSON, because psycopg2 gives a composite as one string
    query = sql.SQL("SELECT {}" if function.binary else "SELECT pg_catalog.to_json({})").format(call)
    try:
        cur.execute(query)
    except psycopg2.Error as err:
        if err.pgcode not in IMAGE_STATES:
            raise
        return Answer(file, error=sentence(err).message)
    value = one(cur)
    milliseconds = (time.perf_counter() - begin) * 1000
    return Answer(file, bytes(value) if function.binary else value, "", milliseconds)


def _keep(answer: Answer, function: Function, out: Path | None) -> Answer:
    """Return the answer with the path of a file in place of its bytes, if there is a folder for it."""
    if out is None or not isinstance(answer.value, bytes):
        return answer
    out.mkdir(parents=True, exist_ok=True)
    file = out / f"{answer.file.name}.{'png' if function.name == 'segment' else 'f32'}"
    file.write_bytes(answer.value)
    return replace(answer, value=file)
