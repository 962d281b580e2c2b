"""next: the rows whose labels would teach a classifier most: of those that it is least sure of, as many as wanted that
differ most from each other and from what has a label.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from psycopg2 import sql
from psycopg2.extensions import connection as Connection
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.base.options import check, documented, option
from dbinfer.base.report import Report
from dbinfer.database.connection import execute_patiently, session
from dbinfer.database.sql import TableName, read, shortened
from dbinfer.report.options import ReportOptions
from dbinfer.report.tables import Key, Rows, Source, Version, choose, columns, find, of

if TYPE_CHECKING:
    from numpy.typing import NDArray

POOL = 10  # candidates for each row that is chosen
FETCH = 1000  # embeddings at a time
FURTHEST = 2.0  # between two vectors of length one
MORE = {"rank": "int4", "proposal": "text", "score": "float4"}  # columns of the new table, beside the key


@documented
@dataclass(frozen=True)
class NextOptions:
    """How many rows, and by what."""

    count: int = option(50, "How many rows to choose.", least=1)
    into: str = option(
        "", "The table to put them into; the rows that it has are replaced. Default: TABLE_next."
    )
    embeddings: str = option(
        "",
        "A table of embeddings, as `dbinfer score --function embed` makes it, by which rows differ.",
        metavar="TABLE",
    )
    label: str | None = option(None, "Column with the labels; NULL where there is none yet. Default: label.")
    labels: str = option(
        "",
        "A table that `dbinfer label` made, whose rows have a label, too. Default: TABLE_labels, if it is there.",
        metavar="TABLE",
    )
    key: str | None = option(
        None,
        "Column (or columns: a,b) that identifies a row. Default: those before `model` in the results, else id.",
    )
    model: str | None = option(None, "Go by the results of name@3. Default: the version that scored last.")

    def __post_init__(self) -> None:
        check(self)


@dataclass(frozen=True)
class NextReport(Report):
    """What was chosen.

    Attributes:
        into: the table, with the columns of the key, rank (1 is the best), proposal (the class that the model sees) and
            score.
        rows: in it; candidates: among which they were chosen.
        model: whose results decided; None where the table does not say.
        by_class: rows of each proposal.
    """

    into: str
    rows: int
    candidates: int
    model: str | None
    by_class: dict[str, int]


class Candidate(NamedTuple):
    """A row without a label: its key, the class that the model sees, how sure it is, and its embedding."""

    key: Key
    proposal: str | None
    score: float
    embedding: Sequence[float] | None


def next(
    table: str = "images",
    predictions: str = "predictions",
    options: NextOptions | None = None,
    dsn: str | None = None,
) -> NextReport:
    """Choose the rows without a label whose labels would teach a classifier most, and put them into a table.

    Of each class that the model sees, the rows of the lowest scores are candidates, ten for each one wanted. Without
    embeddings those of the lowest scores are taken. With embeddings, one after the other, the one whose distance to
    all that has a label or was taken before is greatest, multiplied by 1 - score.

    Args:
        table, predictions: the images with their labels, and the classes that dbinfer.score gave them.

    Raises:
        DataError: a table or column is not there, the results are no classes, or no row without a label has a result.
    """
    options = options or NextOptions()
    with session(dsn) as conn, conn.cursor() as cur:
        source = _source(cur, table, predictions, options)
        labels = _labels(cur, source, options)
        own = TableName(source.table.schema, shortened(source.table.name, "_next"))
        into = TableName.parse(options.into).resolve(cur) if options.into else own
        there = _is_there(cur, into, source)
        version = _version(cur, source, options.model)
        found, picked = _chosen(conn, source, version, _unlabelled(source, labels), options)
        _write(cur, into, there, source, picked)
    return NextReport(
        into=str(into),
        rows=len(picked),
        candidates=len(found),
        model=str(version) if version.model else None,
        by_class=dict(Counter(one.proposal or "" for one in picked).most_common()),
    )


def _source(cur: Cursor, table: str, predictions: str, options: NextOptions) -> Source:
    asked = ReportOptions(key=options.key, label=options.label)
    source = find(cur, table, predictions, asked, needs_image=False)
    if source.first != "class":
        raise DataError(
            f"{source.predictions} holds no classes with their scores, but {source.kind}",
            "Only rows that dbinfer.classify has scored can be chosen: dbinfer score --function classify",
        )
    return source


def _labels(cur: Cursor, source: Source, options: NextOptions) -> TableName | None:
    """Return the table of labels, where there is one.

    Raises:
        DataError: the one that was named is none, or nothing says which rows have a label.
    """
    own = TableName(source.table.schema, shortened(source.table.name, "_labels"))
    labels = TableName.parse(options.labels).resolve(cur) if options.labels else own
    wanted, has = {*source.keys, "label", "who", "at"}, columns(cur, labels, missing=not options.labels)
    if wanted <= set(has):
        return labels
    if options.labels:
        raise DataError(
            f"{labels} has the columns {', '.join(has)}, but a table of labels has {', '.join(sorted(wanted))}",
            "Let dbinfer label make it.",
        )
    if source.label is None:
        raise DataError(
            f"table {source.table} has no column 'label' that says which rows have one",
            "Name it with --label, or add it: ALTER TABLE ... ADD COLUMN label text; or begin with dbinfer label.",
        )
    return None


def _unlabelled(source: Source, labels: TableName | None) -> sql.Composable:
    """Return the condition that a row `i` of the images has no label."""
    parts: list[sql.Composable] = []
    if source.label is not None:
        parts.append(sql.SQL("{} IS NULL").format(sql.Identifier("i", source.label)))
    if labels is not None:
        there = sql.SQL("NOT EXISTS (SELECT 1 FROM {} l WHERE {})")
        parts.append(there.format(labels.identifier, source.same("l", "i")))
    return sql.SQL(" AND ").join(parts)


def _version(cur: Cursor, source: Source, model: str | None) -> Version:
    """Return the version whose results count: the one that is asked for, else the one that scored last."""
    return choose(Rows(cur, source).versions(), ReportOptions(model=model, against=""), True)[0]


def _is_there(cur: Cursor, into: TableName, source: Source) -> bool:
    """Return whether the table is there already.

    Raises:
        DataError: it is another one, or another user's.
    """
    has, wanted = columns(cur, into, missing=True), [*source.keys, *MORE]
    if has and list(has) != wanted:
        raise DataError(
            f"table {into} has the columns {', '.join(has)}, not {', '.join(wanted)}, so it is not replaced",
            "Name another table with --into.",
        )
    if has:
        into.require_own(cur)
    return bool(has)


def _chosen(
    conn: Connection, source: Source, version: Version, unlabelled: sql.Composable, options: NextOptions
) -> tuple[list[Candidate], list[Candidate]]:
    """Return the candidates, and those of them that were chosen, the best first."""
    cur = conn.cursor()
    names: dict[str, sql.Composable] = {
        "table": source.table.identifier,
        "predictions": source.predictions.identifier,
        "key": source.key("c"),
        **{f"{alias}_keys": _names(source, alias) for alias in "pdc"},
        "same": source.same("p", "i"),
        "version": of(version),
        "unlabelled": unlabelled,
        "pool": sql.Literal(POOL * options.count),
        "embedding": sql.SQL("NULL"),
        "joined": sql.SQL(""),
    }
    if options.embeddings:
        vectors = _vectors(cur, source, options)
        names |= {
            "embeddings": vectors.predictions.identifier,
            "embedded": vectors.same("e", "c"),
            "embedded_version": of(_version(cur, vectors, None), "e"),
            "embedding": sql.SQL("e.embedding"),
        }
        names["joined"] = sql.SQL(read("client/next_embedded.sql")).format(**names)
    execute_patiently(cur, sql.SQL(read("client/next_pool.sql")).format(**names))
    found = [Candidate(tuple(key), *rest) for key, *rest in cur.fetchall()]
    _check_once(found, source)
    if not found:
        raise DataError(
            f"no row of {source.table} without a label has a result in {source.predictions}"
            + (f" and an embedding in {options.embeddings}" if options.embeddings else ""),
            f"Score the rows first: dbinfer score --table {source.table} --predictions {source.predictions}",
        )
    if not options.embeddings:
        return found, found[: options.count]
    known = sql.SQL(read("client/next_known.sql")).format(**names | {"same": source.same("e", "i")})
    places = spread(
        [one.score for one in found], [one.embedding for one in found], _parts(conn, known), options.count
    )
    return found, [found[place] for place in places]


def _names(source: Source, alias: str) -> sql.Composed:
    return sql.SQL(", ").join(sql.Identifier(alias, name) for name in source.keys)


def _check_once(found: Sequence[Candidate], source: Source) -> None:
    for key, times in Counter(one.key for one in found).items():
        if times > 1:
            raise DataError(
                f"key {', '.join(key)!r} is not unique in {source.table}, {source.predictions} or the embeddings",
                "Name the column or columns that identify a row with --key.",
            )


def _vectors(cur: Cursor, source: Source, options: NextOptions) -> Source:
    vectors = find(
        cur,
        str(source.table),
        options.embeddings,
        ReportOptions(key=options.key, label=""),
        needs_image=False,
    )
    if vectors.first != "embedding" or list(vectors.keys) != list(source.keys):
        raise DataError(
            f"{vectors.predictions} is no table of embeddings with the key {', '.join(source.keys)}",
            "Make it: dbinfer score --function embed",
        )
    return vectors


def _parts(conn: Connection, query: sql.Composable) -> Iterator[list[Sequence[float]]]:
    with conn.cursor("dbinfer_next") as cursor:
        cursor.execute(query)
        while rows := cursor.fetchmany(FETCH):
            yield [row[0] for row in rows]


def spread(
    scores: Sequence[float], embeddings: Sequence[Any], known: Iterator[list[Sequence[float]]], count: int
) -> list[int]:
    """Return the places of `count` candidates that are unsure and far from each other and from what is known.

    The greedy k-center of core sets (Sener and Savarese 2018), each distance weighed by 1 - score.
    """
    import numpy as np

    vectors, unsure = _unit(embeddings), 1 - np.asarray(scores, np.float64)
    apart = np.full(len(vectors), FURTHEST)
    for part in known:
        apart = np.minimum(apart, _distances(vectors, _unit(part)).min(axis=1))
    taken: list[int] = []
    for _ in range(min(count, len(vectors))):
        worth = unsure * apart
        worth[taken] = -1
        taken.append(int(worth.argmax()))
        apart = np.minimum(apart, _distances(vectors, vectors[taken[-1:]])[:, 0])
    return taken


def _unit(vectors: Sequence[Any]) -> NDArray[Any]:
    import numpy as np

    found: NDArray[Any] = np.asarray(vectors, np.float64)
    found /= np.maximum(np.linalg.norm(found, axis=1, keepdims=True), 1e-12)
    return found


def _distances(one: NDArray[Any], other: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    squares: NDArray[Any] = np.maximum(2 - 2 * one @ other.T, 0)
    return squares**0.5


def _write(cur: Cursor, into: TableName, there: bool, source: Source, picked: Sequence[Candidate]) -> None:
    kinds = source.keys | {name: ("pg_catalog", kind) for name, kind in MORE.items()}
    if there:
        cur.execute(sql.SQL("DELETE FROM {}").format(into.identifier))
    else:
        typed = (
            sql.SQL("{} {}").format(sql.Identifier(name), sql.Identifier(*kind))
            for name, kind in kinds.items()
        )
        cur.execute(sql.SQL("CREATE TABLE {} ({})").format(into.identifier, sql.SQL(", ").join(typed)))
    lists: Sequence[tuple[str, Sequence[Any]]] = (
        ("int4", range(1, len(picked) + 1)),
        ("text", [one.proposal for one in picked]),
        ("float4", [one.score for one in picked]),
    )
    unnest = sql.SQL("pg_catalog.unnest({}::pg_catalog.{}[])")
    # Literals: a % in a name or a key is no placeholder of psycopg2
    more = (unnest.format(sql.Literal(list(values)), sql.SQL(kind)) for kind, values in lists)
    keys = source.arrays(list(zip(*(one.key for one in picked), strict=True)))
    names = sql.SQL(", ").join(map(sql.Identifier, kinds))
    query = sql.SQL("INSERT INTO {} SELECT {} FROM ROWS FROM ({}) AS w({})")
    cur.execute(query.format(into.identifier, names, sql.SQL(", ").join([keys, *more]), names))
