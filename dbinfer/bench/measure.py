"""Measures all cases: in each every method in turns, round after round, then what belongs to SQL alone (the steps of a
row, the first row and the memory of a session), and once `dbinfer load` against a raw binary COPY.
"""

from __future__ import annotations

import io
import itertools
import json
import os
import re
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import psycopg2
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.base.apart import cores
from dbinfer.base.errors import DbinferError, ServerError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.bench import environment, networks
from dbinfer.bench.database import PARALLEL_SMALL, Database, database, server_dsn
from dbinfer.bench.methods import METHODS, Context, Factory, Method, Skip
from dbinfer.bench.report import BenchOptions, BenchReport, Case, Result, Row, Sample, results, with_profile
from dbinfer.bench.workers import Job, Workers, workers
from dbinfer.database.connection import connect, session
from dbinfer.database.copy import encode
from dbinfer.database.sql import read
from dbinfer.images import builtin
from dbinfer.images.load import LoadOptions, load
from dbinfer_udf.host.process import precisions
from dbinfer_udf.model.functions import RUNS

PROFILE_ROWS = 16
STEPS = ("decode", "preprocess", "infer", "postprocess")
EXPLAIN = "EXPLAIN SELECT count({call}) FROM {table}"
FRESH, TOGETHER = 9, 5
FIRST = "SELECT {call} FROM {table} WHERE id = 1"
ISOLATE = "SELECT dbinfer.set_isolation(%s, %s)"
BETWEEN_ROWS = 0.05  # seconds; a person's queries come singly
PRIVATE = ("Private_Clean", "Private_Dirty")
GONE_SECONDS = 30.0
DIGITS = f"{builtin.DIGIT_SIZE}x{builtin.DIGIT_SIZE}"
DISTINCT = {DIGITS: 256, "4000x3000": 6}
DISTINCT_STANDARD = 32
PROBE_SECONDS = 0.5
MIN_ROWS = 64
SMALL_SHARE = 8
FILES, DIFFERENT = 4000, 64
LOAD_ROUNDS = 7  # at least: a round is short, and writing out makes single ones slow
COPY = "COPY {table} (path, img) FROM STDIN WITH (FORMAT binary)"


def run_benchmark(
    options: BenchOptions,
    dsn: str | None,
    progress: OnProgress,
    others: Callable[[Case], Mapping[str, Factory]] = lambda case: {},
) -> BenchReport:
    """Measure all cases; see dbinfer.bench.bench.

    Args:
        others: the methods beside dbinfer's own that are measured in a case.
    """
    can_bf16 = "bf16" in precisions()
    notes = [] if can_bf16 else ["bf16: this processor does not compute in it."]
    measured: list[Result] = []
    with database(server_dsn(dsn, progress), options.keep) as opened, workers(cores()) as processes:
        load, more = _load_speed(opened, options, progress)
        notes += more
        for case in options.cases(can_bf16):
            try:
                taken, more = measure_case(
                    opened, processes, case=case, options=options, progress=progress, others=others(case)
                )
            except (DbinferError, psycopg2.Error) as err:
                # A note, because the other cases of a long run are still worth measuring
                taken, more = [], [f"{case.title}: {_first_line(err)}"]
            measured += taken
            notes += more
        about = environment.environment(opened.platform, list(dict.fromkeys(notes)))
        return BenchReport(about, _with_load(measured, load))


def _load_speed(
    database: Database, options: BenchOptions, progress: OnProgress
) -> tuple[dict[str, float], list[str]]:
    """Return the speed of `dbinfer load`, and a sentence where it could not be measured; nothing where not asked."""
    if options.methods:
        return {}, []
    progress(Progress("dbinfer load against COPY"))
    try:
        return measure_load(database, options), []
    except (DbinferError, psycopg2.Error) as err:
        return {}, [f"load: {_first_line(err)}"]


def _first_line(err: Exception) -> str:
    return str(err).strip().splitlines()[0]


def _with_load(taken: list[Result], load: dict[str, float]) -> list[Result]:
    """Return the results with the speed of load at the first SQL result on photographs."""
    index = next((i for i, r in enumerate(taken) if r.method == "sql" and r.images == "500x375"), None)
    if index is None:
        return taken
    return [*taken[:index], *with_profile([taken[index]], load), *taken[index + 1 :]]


@dataclass
class Rounds:
    """Samples of every method, round by round.

    Attributes:
        loads: the share of the machine that others used before each round.
        notes: sentences on methods that had to be given up.
    """

    samples: dict[str, list[Sample]]
    loads: list[float] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def measure_case(
    database: Database,
    workers: Workers,
    case: Case,
    options: BenchOptions,
    progress: OnProgress,
    others: Mapping[str, Factory] = {},
) -> tuple[list[Result], list[str]]:
    """Return the results of a case, and sentences on what could not be measured, or not well.

    Args:
        others: methods beside those of the options.
    """
    progress(Progress(f"{case.title}: network and images"))
    context = ready(database, workers, case, options)
    chosen = {name: METHODS[name] for name in options.methods_of(case)}
    made, skipped = _methods(context, {**chosen, **others})
    taken = measure_rounds(made, options.rounds, progress, case.title)
    progress(Progress(f"{case.title}: steps, first row, memory"))
    notes = [f"{case.title}: {note}" for note in environment.load_note(taken.loads)]
    more = {**_more(context, taken.samples), "other_load": max(taken.loads, default=0.0)}
    measured = with_profile(results(case, context.rows, taken.samples), more)
    return measured, skipped + taken.notes + notes


def _more(context: Context, taken: Mapping[str, list[Sample]]) -> Row:
    more: Row = profile(context) if "sql" in taken else {}
    if context.case.images == "4000x3000" and "sql" in taken:
        more.update(full_decode(context, taken["sql"][-1].images_per_s))
    return more


def ready(database: Database, workers: Workers, case: Case, options: BenchOptions) -> Context:
    """Return the context of a case: model deployed, tables filled, workers loaded."""
    files = networks.model_files(case.network, case.precision)
    images = tuple(image_files(case))
    database.deploy(case, files)
    rate = _rate(workers, Job(files, case.function, images))
    wanted = options.rows or max(MIN_ROWS, round(rate * options.measured_seconds))
    database.images(images)
    database.fill("first", 8, len(images))
    small = database.fill("small", max(16, wanted // SMALL_SHARE), len(images))
    # Larger than the small table: the rate is a difference divided by a difference
    rows = database.fill("big", max(wanted, small + 1), len(images))
    return Context(
        database=database,
        case=case,
        files=files,
        workers=workers,
        images=images,
        rows=rows,
        small=small,
        seconds=options.measured_seconds,
    )


def image_files(case: Case) -> list[bytes]:
    """Return the files of a case: held-out digits, in turns, as PNG for 28x28, else photographs as JPEG."""
    count = DISTINCT.get(case.images, DISTINCT_STANDARD)
    if case.images != DIGITS:
        return builtin.photograph_files(case.size, count)
    files = [data for data, _label in builtin.digit_files("heldout")]
    return list(itertools.islice(itertools.cycle(files), count))


def _rate(workers: Workers, job: Job) -> float:
    """Return images per second of the bare loop, roughly."""
    workers.load(job)
    count = workers.processes
    # Networks differ a thousandfold in speed: the count grows until a loop takes long enough to be timed
    while True:
        seconds = workers.loop(count)
        if seconds > PROBE_SECONDS:
            return count / seconds
        count *= 4


def _methods(context: Context, named: Mapping[str, Factory]) -> tuple[dict[str, Method], list[str]]:
    made, skipped = {}, []
    for name, factory in named.items():
        try:
            made[name] = factory(context)
        except Skip as err:
            skipped.append(err.message)
    return made, skipped


def measure_rounds(methods: Mapping[str, Method], count: int, progress: OnProgress, title: str) -> Rounds:
    """Return the samples of each method; a method that raises Skip is given up.

    Methods are measured in turns, so that what disturbs the machine disturbs all of them. Every round waits for a
    quiet machine, and starts with another method, so that none always follows the same one.
    """
    taken = Rounds({name: [] for name in methods})
    for turn in range(count):
        names = list(taken.samples)
        if not names:
            break
        taken.loads.append(environment.other_load())
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            progress(Progress(f"{title}: {name}, round {turn + 1} of {count}"))
            try:
                taken.samples[name].append(methods[name].measure())
            except Skip as err:
                taken.notes.append(err.message)
                del taken.samples[name]
    return taken


def profile(context: Context) -> dict[str, Any]:
    """Return the profile of a case as flat JSON values; what the server does not tell is left out."""
    # that of another model would serve the first rows of a fast one, whose own figures these are to be
    stop_engine(context.database)
    known = {"cores": context.workers.processes, "agreement": context.files.agreement}
    measured = {**steps(context), "first_row_ms": first_row_ms(context), **memory(context)}
    warm_engine(context)
    return {**measured, "first_row_warm_ms": first_row_ms(context), **planned(context), **known}


def steps(context: Context) -> dict[str, float]:
    """Return the median microseconds of each step in a backend."""
    database = context.database
    text = database.format(read("bench/profile.sql"), table=database.table("small"))
    rows = database.rows(text, {"model": context.case.model, "rows": PROFILE_ROWS})
    return _step_medians([row[0]["microseconds"] for row in rows])


def full_decode(context: Context, sql_rate: float) -> dict[str, float]:
    """Return rate and steps of the bare loop with full decode and resize, and ours in SQL against it."""
    context.workers.load(Job(context.files, context.case.function, context.images, exact=True))
    count = max(context.workers.processes * 4, context.rows // 8)
    rate = count / context.workers.loop(count)
    model = context.files.compile(exact=True)
    taken = [json.loads(RUNS["profile"](model, img, None))["microseconds"] for img in context.images]
    return {
        "full_decode_images_per_s": round(rate, 2),
        "ratio_full_decode": round(sql_rate / rate, 3),
        **{f"full_{name}": value for name, value in _step_medians(taken).items()},
    }


def _step_medians(taken: list[dict[str, float]]) -> dict[str, float]:
    return {f"{step}_us": round(median(t[step] for t in taken), 1) for step in STEPS if taken}


def memory(context: Context) -> dict[str, float]:
    """Return PSS and private MB of a process that has scored, while others have, too.

    Score and memory are columns of one row, so that on a cluster it is the segment that scored which is asked and
    not another one that sat idle. Nothing is returned where the role may not read the server's files.
    """
    try:
        with scored(context, TOGETHER) as texts:
            return {
                "pss_mb": round(median(megabytes(text, "Pss") for text in texts), 1),
                "private_mb": round(median(megabytes(text, *PRIVATE) for text in texts), 1),
            }
    except psycopg2.Error:
        return {}


def planned(context: Context) -> dict[str, int]:
    """Return how many processes PostgreSQL plans for the measured statement with its own settings."""
    database = context.database
    if database.platform.mpp:
        return {"processes": database.platform.segments}
    text = database.format(EXPLAIN, call=context.call(), table=database.table("big"))
    database.run("RESET parallel_setup_cost")
    plan = "\n".join(row[0] for row in database.rows(text))
    database.run(PARALLEL_SMALL)
    found = re.search(r"Workers Planned: (\d+)", plan)
    return {"processes": 1 + int(found.group(1)) if found else 1}


def fresh(context: Context | Database) -> Any:
    """Open a session of its own."""
    database = context if isinstance(context, Database) else context.database
    return session(database.dsn, error=ServerError, needs_dbinfer=False, autocommit=True)


def first_row_ms(context: Context) -> float:
    """Return the median milliseconds of the first row in fresh sessions, one after the other."""
    text = context.database.format(FIRST, call=context.call(), table=context.database.table("first"))
    taken = []
    for _ in range(FRESH):
        with fresh(context) as conn:
            taken.append(seconds(conn, text) * 1000)
    return round(median(taken), 1)


def stop_engine(database: Database) -> None:
    """End the engines of the server's host; the next row that needs one starts a fresh one."""
    database.one("SELECT dbinfer._full_engines('stop')")
    until = time.monotonic() + GONE_SECONDS
    while database.one("SELECT count(*) FROM dbinfer.engines") and time.monotonic() < until:
        time.sleep(BETWEEN_ROWS)


def warm_engine(context: Context) -> None:
    """Have an engine on the server's host that holds the model; the model's isolation stays what it was."""
    database, model = context.database, context.case.model
    before = database.one("SELECT isolation FROM dbinfer.models WHERE name = %s", (model,))
    database.rows(ISOLATE, (model, "always"))
    with fresh(context) as conn:
        seconds(conn, database.format(FIRST, call=context.call(), table=database.table("first")))
    database.rows(ISOLATE, (model, before))


@contextmanager
def scored(context: Context, count: int) -> Iterator[list[str]]:
    """Yield smaps_rollup of `count` sessions that hold a scored row at once."""
    database = context.database
    text = database.format(read("bench/memory.sql"), call=context.call(), table=database.table("first"))
    with ExitStack() as together:
        opened = [together.enter_context(fresh(context)) for _ in range(count)]
        # twice: the first round fills all sessions, the second one sees what they share
        yield [_memory(conn, text) for _ in range(2) for conn in opened][count:]


def _memory(conn: Connection, text: Any) -> str:
    with conn.cursor() as cur:
        cur.execute(text)
        row = cur.fetchone()
        return str(row[1]) if row else ""


def megabytes(text: str, *fields: str) -> float:
    """Return the sum of some fields of smaps_rollup, in MB."""
    found = [re.search(rf"^{name}:\s+(\d+) kB", text, re.MULTILINE) for name in fields]
    return sum(int(match.group(1)) for match in found if match) * 1024 / 1e6


def seconds(conn: Connection, text: Any, pause: float = 0.0) -> float:
    """Return how long a session takes for a statement, after a pause."""
    time.sleep(pause)
    with conn.cursor() as cur:
        started = time.perf_counter()
        cur.execute(text)
        cur.fetchall()
        return time.perf_counter() - started


def measure_load(database: Database, options: BenchOptions) -> dict[str, float]:
    """Return images per second of both, and their ratio as the median over the rounds."""
    images = builtin.photograph_files((500, 375), DIFFERENT)
    count = FILES // 4 if options.quick else FILES
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for i in range(count):
            (folder / _path(i)).write_bytes(images[i % DIFFERENT])
        # Or the files are still being written while the clock runs
        os.sync()
        rounds = [
            _load_round(database, folder, images, count, i % 2 == 1)
            for i in range(max(LOAD_ROUNDS, options.rounds))
        ]
    loaded, copied = zip(*rounds, strict=True)
    return {
        "load_images_per_s": round(count / median(loaded), 1),
        "copy_images_per_s": round(count / median(copied), 1),
        "ratio_load": round(median(raw / ours for ours, raw in rounds), 3),
    }


def _load_round(
    database: Database, folder: Path, images: list[bytes], count: int, swap: bool
) -> tuple[float, float]:
    """Return the seconds of load and of COPY; every other round has them in the other order."""
    methods = [_load(database, folder), _copy(database, images, count)]
    if swap:
        copied, loaded = (_timed(database, method) for method in methods[::-1])
    else:
        loaded, copied = (_timed(database, method) for method in methods)
    return loaded, copied


def _timed(database: Database, method: Callable[[], object]) -> float:
    """Return the seconds of a method, with no table there and nothing left to write out."""
    for name in ("copied", "loaded"):
        database.run("DROP TABLE IF EXISTS {table}", table=database.table(name))
    # A checkpoint takes a superuser; without one the rounds differ more, and the median still counts
    with suppress(psycopg2.errors.InsufficientPrivilege):
        database.run("CHECKPOINT")
    started = time.perf_counter()
    method()
    return time.perf_counter() - started


def _load(database: Database, folder: Path) -> Callable[[], object]:
    options = LoadOptions(table=f"{database.schema}.loaded", base=folder)
    return lambda: load([folder], options, database.dsn)


def _copy(database: Database, images: list[bytes], count: int) -> Callable[[], object]:
    """Copy into an empty table like the one that load makes."""
    names = {"path": sql.Identifier("path"), "img": sql.Identifier("img"), "label": sql.SQL("")}
    create = database.format(read("client/create_images.sql"), table=database.table("copied"), **names)
    copy = database.format(COPY, table=database.table("copied"))
    rows = io.BytesIO(b"".join(encode((_path(i).encode(), images[i % len(images)]) for i in range(count))))

    def copied() -> None:
        with closing(connect(database.dsn)) as conn, conn.cursor() as cur:
            cur.execute(create)
            cur.copy_expert(copy, rows, 1 << 20)
            conn.commit()

    return copied


def _path(i: int) -> str:
    return f"{i:06}.jpg"
