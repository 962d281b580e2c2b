"""proxy: how likely a question is true of each row, from embeddings that are there: what makes find and estimate cheap.

A logistic regression, trained on the answers that they have kept.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from psycopg2 import errors, sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError
from dbinfer.base.options import check, documented, option
from dbinfer.base.report import Report
from dbinfer.database.connection import execute_patiently, session
from dbinfer.database.pins import install
from dbinfer.database.sql import TableName, column, read, shortened
from dbinfer.report.tables import Columns, columns

MOST = 50_000  # answers to learn from
LEAST = 10  # true ones, and false ones
FOLDS = 5
BANDS = 5


@documented
@dataclass(frozen=True)
class ProxyOptions:
    """What it learns from, and where it goes."""

    embeddings: str = option(
        "embeddings",
        "A table with a key and `embedding`, one row for each image, as `dbinfer score --function embed` makes it.",
        metavar="TABLE",
    )
    key: str = option("id", "The column of the embeddings that identifies a row.", metavar="COLUMN")
    question: str = option("", "A part of the question's text. Default: the question that was answered last.")
    into: str = option(
        "", "The table of the key and `proxy`; the rows that it has are replaced. Default: ANSWERS_proxy."
    )

    def __post_init__(self) -> None:
        check(self)


class Band(NamedTuple):
    """A fifth of the rows that were learnt from, by what a proxy says that has not seen them.

    Attributes:
        said: the mean of the proxy.
        true: the share of rows of which the question is true: near `said`, where the proxy is calibrated.
    """

    said: float
    true: float


@dataclass(frozen=True)
class ProxyReport(Report):
    """What was learnt.

    Attributes:
        into: the table; rows: in it.
        question: as it was asked, behind the table's name.
        answers: rows that were learnt from; true: of them.
        auc: how often a true row has a higher proxy than a false one, of pairs that it has not seen: 0.5 is chance.
        bands: from the lowest proxies to the highest.
        proxy: what to write for `proxy` in find and estimate.
    """

    into: str
    rows: int
    question: str
    answers: int
    true: int
    auc: float
    bands: list[Band]
    proxy: str


class Learnt(NamedTuple):
    """Weights of an embedding, the bias, and what the regression says of rows that it has not seen."""

    weights: list[float]
    bias: float
    unseen: Any


def proxy(
    answers: str = "kept_answers", options: ProxyOptions | None = None, dsn: str | None = None
) -> ProxyReport:
    """Learn from kept answers how likely a question is true, and write that for each row that has an embedding.

    Args:
        answers: the table that dbinfer.estimate or dbinfer.find has kept answers in.

    Raises:
        DataError: a table or column is not there, or too few of the answers are true, or false, or have an embedding.
    """
    options = options or ProxyOptions()
    with session(dsn) as conn, conn.cursor() as cur:
        kept = TableName.parse(answers).resolve(cur)
        own = TableName(kept.schema, shortened(kept.name, "_proxy"))
        into = TableName.parse(options.into).resolve(cur) if options.into else own
        embeddings = TableName.parse(options.embeddings).resolve(cur)
        key = column(options.key)
        _require(
            cur,
            kept,
            ["key", "question", "answer", "scored_at"],
            "Name the table in which estimate or find has kept answers.",
        )
        hint = "Name the key with --key, or make the table: dbinfer score --function embed"
        kind = _require(cur, embeddings, [key, "embedding"], hint)[key]
        names: dict[str, sql.Composable] = {
            "answers": kept.identifier,
            "embeddings": embeddings.identifier,
            "into": into.identifier,
            "key": sql.Identifier(key),
        }
        question = _question(cur, kept, options.question, names)
        known = _known(cur, question, names)
        learnt = learn(*known)
        _empty(cur, into, key, kind)
        rows = _write(cur, learnt, names)
    true = sum(known[1])
    return ProxyReport(
        into=str(into),
        rows=rows,
        question=question,
        answers=len(known[1]),
        true=true,
        auc=round(area(learnt.unseen, known[1]), 4),
        bands=bands(learnt.unseen, known[1]),
        proxy=_expression(into, key, question),
    )


def _require(cur: Cursor, table: TableName, wanted: Sequence[str], hint: str) -> Columns:
    has = columns(cur, table)
    if missing := [name for name in wanted if name not in has]:
        raise DataError(f"{table} has the columns {', '.join(has)}, but no {missing[0]}", hint)
    return has


def _question(cur: Cursor, kept: TableName, part: str, names: dict[str, sql.Composable]) -> str:
    """Return the question that was answered last, of those that have the part."""
    cur.execute(sql.SQL(read("client/proxy_questions.sql")).format(part=sql.Literal(part), **names))
    found = cur.fetchone()
    if found is None:
        raise DataError(
            f"{kept} has no answer to a question with {part!r}" if part else f"{kept} has no answers",
            "Let estimate keep some: dbinfer.estimate(..., answers => 'kept_answers')",
        )
    question, answered, true = found
    if min(true, answered - true) < LEAST:
        raise DataError(
            f"of {answered} answers to the question {question.strip()!r} {true} are true, but a proxy learns from "
            f"{LEAST} true and {LEAST} false ones",
            "Have more rows answered, or name another question with --question.",
        )
    return str(question)


def _known(cur: Cursor, question: str, names: dict[str, sql.Composable]) -> tuple[list[Any], list[bool]]:
    """Return embeddings of rows that have an answer, and the answers."""
    more: dict[str, sql.Composable] = {"question": sql.Literal(question), "most": sql.Literal(MOST)}
    execute_patiently(cur, sql.SQL(read("client/proxy_known.sql")).format(**names | more))
    found = cur.fetchall()
    true = sum(answer for _, answer in found)
    if min(true, len(found) - true) < LEAST or len({len(embedding) for embedding, _ in found}) > 1:
        raise DataError(
            f"{len(found)} rows have an answer and an embedding, {true} of them a true one; a proxy learns from "
            f"{LEAST} true and {LEAST} false ones, with embeddings of one length",
            "Embed more rows, of one model, or name the key with --key.",
        )
    return [embedding for embedding, _ in found], [answer for _, answer in found]


def learn(embeddings: Sequence[Sequence[float]], answers: Sequence[bool]) -> Learnt:
    """Fit a logistic regression on standardised embeddings.

    Raises:
        DataError: scikit-learn is not installed, or an embedding is not of numbers alone.
    """
    try:
        from sklearn.linear_model import LogisticRegression
        from sklearn.model_selection import cross_val_predict
        from sklearn.pipeline import make_pipeline
        from sklearn.preprocessing import StandardScaler
    except ImportError as err:
        raise DataError("a proxy needs scikit-learn, which is not installed", install("train")) from err
    import numpy as np

    values, true = np.asarray(embeddings, np.float64), np.asarray(answers)
    if not np.isfinite(values).all():
        raise DataError(
            "an embedding holds NULL, NaN or an infinite number", "Embed these rows again, or leave them out."
        )
    steps = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
    unseen = cross_val_predict(steps, values, true, cv=FOLDS, method="predict_proba")[:, 1]
    scaler, regression = (step for _, step in steps.fit(values, true).steps)
    weights = regression.coef_[0] / scaler.scale_
    return Learnt(weights.tolist(), float(regression.intercept_[0] - weights @ scaler.mean_), unseen)


def area(unseen: Any, answers: Sequence[bool]) -> float:
    """Return the area under the ROC curve."""
    from sklearn.metrics import roc_auc_score

    return float(roc_auc_score(answers, unseen))


def bands(unseen: Any, answers: Sequence[bool]) -> list[Band]:
    """Return what was said and what is true of each fifth."""
    import numpy as np

    order, true = np.argsort(unseen, kind="stable"), np.asarray(answers)
    return [
        Band(float(unseen[part].mean()), float(true[part].mean())) for part in np.array_split(order, BANDS)
    ]


def _empty(cur: Cursor, into: TableName, key: str, kind: tuple[str, str]) -> None:
    """Make the table of the key and the proxy, or empty the one that is there."""
    has = columns(cur, into, missing=True)
    if has and list(has) != [key, "proxy"]:
        raise DataError(
            f"table {into} has the columns {', '.join(has)}, not {key}, proxy, so it is not replaced",
            "Name another table with --into.",
        )
    if has:
        into.require_own(cur)
        cur.execute(sql.SQL("DELETE FROM {}").format(into.identifier))
        return
    made = sql.SQL("CREATE TABLE {} ({} {} PRIMARY KEY, proxy float4)")
    cur.execute(made.format(into.identifier, sql.Identifier(key), sql.Identifier(*kind)))


def _write(cur: Cursor, learnt: Learnt, names: dict[str, sql.Composable]) -> int:
    """Write the proxy of each row that has an embedding, and return how many they are."""
    values: dict[str, sql.Composable] = {
        "weights": sql.Literal(learnt.weights),
        "bias": sql.Literal(learnt.bias),
    }
    try:
        execute_patiently(cur, sql.SQL(read("client/proxy_write.sql")).format(**names | values))
    except errors.UniqueViolation as err:
        raise DataError(
            f"column {names['key'].as_string(cur)} of the embeddings has the same value in several rows",
            "Name the key with --key, or a view of one model's embeddings with --embeddings.",
        ) from err
    rows = cur.rowcount
    cur.execute(sql.SQL("ANALYZE {into}").format(**names))
    return rows


def _expression(into: TableName, key: str, question: str) -> str:
    """Return the proxy as an expression over the table that the question is about."""
    table, named = question.split(": ", 1)[0].rsplit(".", 1)[-1], TableName(None, key)
    # an aggregate, because Greenplum then joins
    return f"(SELECT max(p.proxy) FROM {into} p WHERE p.{named} = {table}.{named})"
