"""Checks what a job is asked to do before anything is made, then makes its tables or continues with existing ones."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import cursor as Cursor

from dbinfer.base.errors import DataError, UsageError
from dbinfer.database.connection import one
from dbinfer.database.platform import Platform
from dbinfer.database.sql import TableName, column, read, shortened
from dbinfer.images.stores import image_of, refers
from dbinfer.models.registry import FILES
from dbinfer.score.answers import Answers, find_answers
from dbinfer.score.marks import COLUMNS, DIGEST, Marks, by_column, by_writer
from dbinfer.score.options import BY_TASK, Arguments, Function, ScoreOptions, choose
from dbinfer.score.queue import queue_name
from dbinfer.score.statements import Column, Key, Plan, columns_of, find, indexes, split
from dbinfer_udf.tasks import pays

OURS = ("model", "version", "scored_at")
# What ALTER TABLE may call a type, and what the catalog calls it
CATALOG = {"float4": "real", "int4": "integer", "int8": "bigint", "timestamptz": "timestamp with time zone"}


def check_shape(cur: Cursor, plan: Plan) -> None:
    """Raise DataError if there is a table of results that this job cannot fill."""
    there = columns_of(cur, plan.into)
    if not there:
        return
    if of_a_job(there):
        _check_job(cur, plan, there)
    else:
        _check_old(cur, plan, there)


def of_a_job(there: dict[str, Column]) -> bool:
    """Return whether a job made the table of these columns."""
    return set(OURS) <= set(there)


def _results(plan: Plan) -> dict[str, str]:
    """Return names and types of the columns that every table of results has: the key's and the function's."""
    key = {c.name: c.type for c in plan.key.columns}
    return key | dict(zip(plan.function.columns, plan.function.types, strict=True))


def _check_job(cur: Cursor, plan: Plan, there: dict[str, Column]) -> None:
    ours = {"model": "text", "version": "integer", "scored_at": "timestamptz"}
    for name, kind in (_results(plan) | ours).items():
        if name not in there or _plain(there[name].type) != _plain(kind):
            found = f"as {there[name].type}" if name in there else "not"
            raise DataError(
                f"{plan.into} has another shape: this job needs a column {name} of type {_plain(kind)}, "
                f"which it has {found}",
                "Choose another table with --predictions, or replace this one with --replace.",
            )
    full = Key((*plan.key.columns, there["model"], there["version"]))
    numbers = Key(tuple(there[name] for name in full.names))
    if not indexes(cur, plan.into, numbers)[0]:
        raise DataError(
            f"{plan.into} has no unique index on its key, model and version",
            f"Make one: ALTER TABLE {plan.into} ADD PRIMARY KEY ({', '.join(full.names)})",
        )


def _check_old(cur: Cursor, plan: Plan, there: dict[str, Column]) -> None:
    """Refuse a table that was made neither by 0.1.0 nor with --atomic, or that does not say which version made it."""
    shape = {name: _plain(kind) for name, kind in _results(plan).items()}
    if {name: _plain(column.type) for name, column in there.items()} != shape:
        raise DataError(
            f"table {plan.into} already exists, and no job has made it",
            "Use --replace to replace it, --append to add the missing rows, or --predictions for another table.",
        )
    names = ", ".join(plan.key.names)
    if indexes(cur, plan.into, Key(tuple(there[name] for name in plan.key.names)))[0]:
        raise DataError(
            f"{plan.into} has a unique index on {names} alone, but will hold results of several versions",
            "Drop that index or constraint, then score again.",
        )
    cur.execute(
        "SELECT version FROM dbinfer.model_versions WHERE name OPERATOR(pg_catalog.=) %s ORDER BY 1",
        (plan.model,),
    )
    versions = [str(version) for (version,) in cur]
    if len(versions) > 1 and "@" not in (plan.options.model or ""):
        raise DataError(
            f"{plan.into} does not say which version of {plan.model} ({', '.join(versions)}) has made its results",
            f"Name that version this once, for example --model {plan.model}@{versions[-1]}",
        )


def _plain(kind: str) -> str:
    kind = kind.replace("pg_catalog.", "")
    base = re.sub(r"\(\d+\)|\[\]", "", kind)
    return kind.replace(base, CATALOG.get(base, base))


def errors_name(name: str) -> str:
    """Return the name of the table of bad images."""
    return shortened(name, "_errors")


def make_tables(cur: Cursor, plan: Plan) -> str:
    """Make the tables of results and of bad images if they are missing; return a note about them."""
    results: list[sql.Composable] = [
        sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(name), sql.SQL(kind))
        for name, kind in zip(plan.function.columns, plan.function.types, strict=True)
    ]
    results.append(sql.SQL("ADD COLUMN scored_at pg_catalog.timestamptz NOT NULL"))
    reasons = [
        sql.SQL("ADD COLUMN reason pg_catalog.text NOT NULL"),
        sql.SQL("ADD COLUMN at pg_catalog.timestamptz NOT NULL"),
    ]
    there = columns_of(cur, plan.into)
    for name, columns in ((plan.into, results), (plan.errors, reasons)):
        if not columns_of(cur, name):
            _make(cur, plan, name, columns)
    notes = [_adopt(cur, plan)] if there and not of_a_job(there) else []
    if plan.marks:
        notes += [_keep_marks(cur, plan)]
    if plan.answers:
        _index_digests(cur, plan)
    return "; ".join(filter(None, notes))


def _keep_marks(cur: Cursor, plan: Plan) -> str:
    """Add the columns that a job needs which follows; return a note where there are results without them."""
    for name in (plan.into, plan.errors):
        if DIGEST not in columns_of(cur, name):
            _alter(cur, name, COLUMNS)
    if not plan.options.follow:
        return ""
    of_before = sql.SQL(
        "SELECT EXISTS (SELECT FROM {} WHERE image_digest IS NULL AND model OPERATOR(pg_catalog.=) {} "
        "AND version OPERATOR(pg_catalog.=) {})"
    )
    values = sql.Literal(plan.model), sql.Literal(plan.version)
    cur.execute(of_before.format(plan.into.identifier, *values))
    if not one(cur):
        return ""
    return f"{plan.into}: results of runs without --follow do not say of which image they are; they are made again"


def _index_digests(cur: Cursor, plan: Plan) -> None:
    """Add the index by which a picture's answer is found, if it is missing."""
    there = columns_of(cur, plan.into)
    if not indexes(cur, plan.into, Key((there[DIGEST],)))[1]:
        cur.execute(sql.SQL("CREATE INDEX ON {} ({})").format(plan.into.identifier, sql.Identifier(DIGEST)))


def _alter(cur: Cursor, name: TableName, columns: dict[str, str]) -> None:
    added = sql.SQL(", ").join(
        sql.SQL("ADD COLUMN {} {}").format(sql.Identifier(column), sql.SQL(kind))
        for column, kind in columns.items()
    )
    cur.execute(sql.SQL("ALTER TABLE {} {}").format(name.identifier, added))


def _adopt(cur: Cursor, plan: Plan) -> str:
    """Give a table of 0.1.0, which `check_shape` has checked, the columns and the index of a job."""
    names = {
        "into": plan.into.identifier,
        "keys": plan.key.listed(),
        "model": sql.Literal(plan.model),
        "version": sql.Literal(plan.version),
        "distribution": _listed(distribution(cur, plan)),
    }
    cur.execute(sql.SQL(plan.platform.adapt(read("client/job_adopt.sql"))).format(**names))
    return f"{plan.into}: what 0.1.0 or --atomic left there counts as {plan.reference or plan.function.name}"


def _make(cur: Cursor, plan: Plan, name: TableName, columns: Sequence[sql.Composable]) -> None:
    text = plan.platform.adapt(read("client/job_create.sql"))
    names = {
        "into": name.identifier,
        "table": plan.table.identifier,
        "keys": plan.key.listed(),
        "columns": sql.SQL(", ").join(columns),
        "distribution": _listed(distribution(cur, plan)),
    }
    cur.execute(sql.SQL(text).format(**names))


def _listed(names: Sequence[str]) -> sql.Composed:
    return sql.SQL(", ").join(map(sql.Identifier, names))


def spread_by(cur: Cursor, table: TableName) -> list[str]:
    """Return the columns by which Greenplum distributes a table; none for a random distribution or a view."""
    cur.execute(read("client/job_distribution.sql"), {"table": table.identifier.as_string(cur)})
    return [row[0] for row in cur.fetchall()]


def distribution(cur: Cursor, plan: Plan) -> list[str]:
    """Return the columns by which Greenplum distributes the results: those of the images, if the key has them."""
    if not plan.platform.mpp:
        return []
    found = spread_by(cur, plan.table)
    return found if found and set(found) <= set(plan.key.names) else plan.key.names


WHOLE_NUMBERS = ("smallint", "integer", "bigint")


def target_kind(cur: Cursor, images: TableName, into: TableName) -> str | None:
    """Return 'job' or 'other' for an existing table of results, None if there is none.

    Raises:
        UsageError: it is the table of images.
        DataError: it is no table.
    """
    kind, source = _relation(cur, into, images)
    if source:
        raise UsageError(f"--predictions names {into}, which is the table of images", "Choose another table.")
    if kind is None:
        return None
    # an ordinary table or a partitioned one
    if kind not in "rp":
        raise DataError(f"{into} is not a table", "Choose another name with --predictions.")
    return "job" if of_a_job(columns_of(cur, into)) else "other"


def _relation(cur: Cursor, name: TableName, images: TableName) -> tuple[str | None, bool]:
    """Return the kind of a relation (None: there is none), and whether it is the table of images."""
    texts = {"into": name.identifier.as_string(cur), "table": images.identifier.as_string(cur)}
    cur.execute(read("client/target.sql"), texts)
    return cur.fetchone() or (None, False)


def prepare(cur: Cursor, table: str, into: str, options: ScoreOptions, platform: Platform) -> Plan:
    """Return the plan of a job; nothing is made yet.

    Raises:
        DataError: something is missing or does not fit: table, key, image column, model, right, older table of results.
    """
    _check_writable(cur)
    source = TableName.parse(table).resolve(cur)
    target = TableName.parse(into).resolve(cur)
    there = columns_of(cur, source)
    if not there:
        raise DataError(f"table {source} does not exist", "Name the table of images with --table.")
    if (img := column(options.column)) not in there:
        raise DataError(
            f"{source} has no column {img!r} with images",
            f"Name it with --column; the columns are {', '.join(there)}.",
        )
    key = find(cur, source, options.key, there)
    function = choose(cur, options.function, options.model)
    errors = TableName(target.schema, errors_name(target.name))
    if platform.tables_only and options.follow:
        raise DataError(
            "--follow needs a server that scores, and here workers do",
            "Score rows that have changed again: delete their results, and run dbinfer score.",
        )
    marks = _marks(cur, source, there, options, platform) if _keeps(cur, target, options) else None
    _check_names(key, function, marks)
    model, version, milliseconds, batched = (
        _version(cur, options.model, platform) if function.model else ("", 0, None, False)
    )
    _check_task(cur, function, model)
    # Here the server refuses what may not be run, or not on this model, before anything is made
    if platform.tables_only:
        _ask_for_workers(cur, source, there[img], function, f"{model}@{version}")
    else:
        ask_once(cur, source, there[img], function, Arguments(f"{model}@{version}", "null", options.top))
    if platform.mpp:
        key = _spread(cur, source, key, there, function)
    unique, ordered = indexes(cur, source, key)
    # references are fetched ahead of what takes groups
    grouped = (
        function.batched is not None and (batched or refers(there[img].type)) and _may_group(key, platform)
    )
    # on segments only the key goes with an image through its batch
    grouped &= not (platform.mpp and marks)
    marked = _marked(cur, source, platform)
    plan = Plan(
        table=source,
        into=target,
        errors=errors,
        img=there[img],
        key=key,
        function=function,
        model=model,
        version=version,
        options=options,
        platform=platform,
        ordered=ordered,
        grouped=grouped,
        milliseconds=milliseconds or 10.0,
        marked=marked,
        marks=marks,
        queue=_queue(cur, target, key, options),
    )
    if options.reuse:
        plan = replace(plan, answers=_answers(cur, plan))
    for name in plan.targets:
        name.require_own(cur)
    check_shape(cur, plan)
    _check_rows(cur, plan, unique)
    return plan


def _may_group(key: Key, platform: Platform) -> bool:
    """Return whether images can be taken in groups: on segments only a number goes with each through its batch."""
    return not platform.mpp or (len(key.columns) == 1 and key.columns[0].type in WHOLE_NUMBERS)


def _spread(cur: Cursor, table: TableName, key: Key, there: dict[str, Column], function: Function) -> Key:
    """Return the key with the columns by which the images are distributed: then no image moves to its result."""
    more = [there[name] for name in spread_by(cur, table) if name not in key.names]
    taken = (*OURS, *function.columns, "reason", "at", *COLUMNS)
    if any(c.nullable or c.name in taken for c in more):
        return key
    return Key((*key.columns, *more))


def _check_writable(cur: Cursor) -> None:
    cur.execute("SELECT pg_catalog.pg_is_in_recovery(), pg_catalog.current_setting('transaction_read_only')")
    standby, read_only = cur.fetchone() or (False, "off")
    if standby or read_only == "on":
        why = "it is a standby" if standby else "default_transaction_read_only is on"
        raise DataError(f"the server takes no changes: {why}", "Score on the primary server.")


def _queue(cur: Cursor, into: TableName, key: Key, options: ScoreOptions) -> TableName | None:
    """Return the queue of changed rows, if there is one that this job takes from."""
    name = queue_name(into)
    there = columns_of(cur, name) if options.follow else {}
    return name if set(there) == {*key.names, "follower"} else None


def _answers(cur: Cursor, plan: Plan) -> Answers:
    if plan.refers:
        raise DataError(
            f"--reuse compares the bytes of images, and column {plan.img.name!r} has references to them",
            "Leave out --reuse.",
        )
    return find_answers(
        cur,
        plan.into,
        function=plan.function,
        version=(plan.model, plan.version),
        also=split(plan.options.reuse_from or ""),
        platform=plan.platform,
    )


def _keeps(cur: Cursor, into: TableName, options: ScoreOptions) -> bool:
    """Return whether a result says of which image it is: where it is asked for, and where results do so already."""
    return options.follow or options.reuse or DIGEST in columns_of(cur, into)


def _marks(
    cur: Cursor, table: TableName, there: dict[str, Column], options: ScoreOptions, platform: Platform
) -> Marks:
    if options.changed_column is None:
        return by_writer(cur, table, bool(platform.mpp and spread_by(cur, table)), platform)
    if (name := column(options.changed_column)) not in there:
        raise DataError(
            f"{table} has no column {name!r} that says when a row has changed",
            f"Name it with --changed-column, or leave that out; the columns are {', '.join(there)}.",
        )
    return by_column(name, there[name].type, platform)


def _check_names(key: Key, function: Function, marks: Marks | None) -> None:
    taken = (*OURS, *function.columns, "reason", "at", *(COLUMNS if marks else ()))
    for name in key.names:
        if name in taken:
            raise DataError(
                f"the key column {name!r} has the name of a column of the results",
                "Make a view that names it otherwise, and name the view with --table.",
            )


def _ask_for_workers(cur: Cursor, table: TableName, img: Column, function: Function, reference: str) -> None:
    """Check what `ask_once` does where no function of the server scores: column, function, the right to the model."""
    if not function.word:
        raise DataError(
            f"{function.name} runs within a server alone, and this one scores by workers",
            "Leave out --function: workers have what models are for.",
        )
    empty = sql.SQL("NULL::{}").format(sql.SQL(img.type))
    try:
        if not refers(img.type):
            cur.execute(sql.SQL("SELECT pg_catalog.sha256({})").format(image_of(img.type, empty)))
    except psycopg2.errors.UndefinedFunction as err:
        raise _no_images(table, img) from err
    cur.execute(FILES, (reference,))


def _no_images(table: TableName, img: Column) -> DataError:
    return DataError(
        f"column {img.name!r} of {table} is of type {img.type}, but images are bytea, or references to them text",
        "Name the column with the images with --column.",
    )


def _version(cur: Cursor, reference: str | None, platform: Platform) -> tuple[str, int, float | None, bool]:
    """Return model, version, milliseconds of an image in its trial, and whether batches pay."""
    name, _, suffix = (reference or "").partition("@")
    values = {"name": name or None, "suffix": suffix or None}
    cur.execute(read("client/job_version.sql"), values)
    found: tuple[str, int, float | None, float | None] | None = cur.fetchone()
    if found is None:
        # The server says it in its own words
        if platform.tables_only:
            cur.execute(FILES, (reference,))
        cur.execute("SELECT dbinfer.predict(%s, %s)", (psycopg2.Binary(b"x"), reference))
        raise DataError(f"model {reference!r} does not exist", "List the models: dbinfer models")
    model, version, alone, within = found
    return model, version, alone, pays(alone, within)


def _check_task(cur: Cursor, function: Function, model: str) -> None:
    """Refuse a function for models of another task; the server answers a NULL image without looking at the model."""
    cur.execute(read("client/task.sql"), {"name": model})
    task = one(cur)
    if function.task not in (None, task):
        raise DataError(
            f'model "{model}" is for {task}, but {function.name}() needs {function.task}',
            f"Leave out --function: dbinfer.{BY_TASK.get(task, 'predict')} is the one for this model.",
        )


def ask_once(cur: Cursor, table: TableName, img: Column, function: Function, arguments: Arguments) -> None:
    """Call the function on a NULL of the column's type.

    Raises:
        DataError: it is no type of images: bytea, what the server takes for it (a domain), text, or oid.
    """
    empty = sql.SQL("NULL::{}").format(sql.SQL(img.type))
    call = function.call(image_of(img.type, empty), arguments)
    try:
        cur.execute(sql.SQL("SELECT {}").format(call))
    except psycopg2.errors.UndefinedFunction as err:
        raise _no_images(table, img) from err


def _marked(cur: Cursor, table: TableName, platform: Platform) -> bool:
    """Return whether rows have xmin; on Greenplum each segment counts its own transactions."""
    if platform.mpp:
        return False
    return _relation(cur, table, table)[0] in ("r", "p", "m")


def _check_rows(cur: Cursor, plan: Plan, unique: bool) -> None:
    """Refuse rows without a key, and keys of several rows."""
    if nullable := [c.name for c in plan.key.columns if c.nullable]:
        missing = sql.SQL(" OR ").join(
            sql.SQL("{} IS NULL").format(sql.Identifier(name)) for name in nullable
        )
        _ask(cur, plan, "client/job_keyless.sql", missing=missing)
        if count := one(cur):
            raise DataError(f"{count} rows of {plan.table} have no key: {', '.join(nullable)} is NULL", _HINT)
    if not unique:
        _ask(cur, plan, "client/job_twice.sql", texts=plan.key.texts())
        if row := cur.fetchone():
            named = ", ".join(row[:-1])
            raise DataError(f"the key of {plan.table} is not unique: {named} is in {row[-1]} rows", _HINT)


_HINT = "Name another key with --key, or number the rows: ALTER TABLE ... ADD COLUMN id bigserial"


def _ask(cur: Cursor, plan: Plan, file: str, **more: sql.Composable) -> None:
    names = {"table": plan.table.identifier, "keys": plan.key.listed(), "where": sql.SQL(plan.options.where)}
    cur.execute(sql.SQL(read(file)).format(**names, **more))
