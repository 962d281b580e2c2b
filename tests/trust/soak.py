"""Everybody at once, for hours, on a server of the test's own: sessions, jobs, loads, versions that come and go, bad
images and cancels, while processes are killed and the server starts again; and what all of it holds meanwhile."""

from __future__ import annotations

import os
import random
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import crowd
import psycopg2
import tiny_models
from asking import ask, make_images, rows
from breakable import Breakable, kill
from engine_processes import below, title
from psycopg2.extensions import connection as Connection

from dbinfer import server as embedded
from dbinfer.base.errors import DbinferError
from dbinfer.images.load import LoadOptions, load
from dbinfer.install.hosts import EngineOptions, engine
from dbinfer.models import DeployOptions, deploy
from dbinfer.score import ScoreOptions, score

# Seconds after something was ended, in which a statement may still meet what is left of it
GRACE = 5.0
# A session, the server or an engine's worker that was ended; without a code: the connection is gone
ENDED = ("57P01", "57P02", "57P03", "58000")
COLOURS = ("red", "green", "blue")
IMAGES = [tiny_models.file(tiny_models.picture(*rgb)) for rgb in ((200, 9, 9), (9, 200, 9), (9, 9, 200))]
TORN = IMAGES[0][:40]
COPIES = 300
# Of the table `mixed`, whose fourth, eighth, ... image is torn
JOB = (3 * COPIES, 3 * COPIES, COPIES)
SCORED = (
    "SELECT count(*), count(*) FILTER (WHERE s.label = (ARRAY['red', 'green', 'blue'])[s.id % 4 + 1]), "
    "(SELECT count(*) FROM soaked_errors) FROM soaked s"
)
FILES = 12
SESSIONS = """
SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()
 ORDER BY random() LIMIT 1"""


@dataclass
class Soak:
    """A load on a server.

    Attributes:
        done: how often each actor has done its work, and each deed was done.
        excused: the errors of those whose server, session or worker was ended, and how often each came.
        problems: what must not be.
        forget: drops what the suite keeps of models that were deployed, which would grow.
    """

    broken: Breakable
    folder: Path
    pause: float
    forget: Callable[[], None]
    done: Counter[str] = field(default_factory=Counter)
    excused: Counter[str] = field(default_factory=Counter)
    problems: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.stop = threading.Event()
        self._ended: list[tuple[float, float]] = []
        self._resting = threading.Lock()

    def prepare(self) -> None:
        """Make the tables and the models."""
        with self.broken.session() as db:
            make_images(db, "many", IMAGES[:1], crowd.ROWS)
            make_images(db, "mixed", [*IMAGES, TORN], COPIES)
            rows(db, crowd.WRAPPER)
        crowd.deploy_first(self.broken.dsn, self.folder)
        # in the engine, whose workers are killed
        apart = DeployOptions(isolation="always")
        deploy(tiny_models.colour_classifier(self.folder), apart, dsn=self.broken.dsn)
        (self.folder / "files").mkdir()
        for number in range(FILES):
            (self.folder / "files" / f"{number}.png").write_bytes(IMAGES[number % 3])

    def run(self, seconds: float, sample: Callable[[], None], every: float) -> None:
        """Let all work for so long, and take a sample now and then."""
        actors = (self.ask, self.ask, self.ask, self.job, self.load, self.bad, self.change, self.deed)
        threads = [
            threading.Thread(target=self._repeat, args=(actor, random.Random(number)))
            for number, actor in enumerate(actors)
        ]
        for thread in threads:
            thread.start()
        until, told = time.monotonic() + seconds, 0
        try:
            while (left := until - time.monotonic()) > 0:
                with self._resting:
                    sample()
                if (tenth := int(10 - 10 * left / seconds)) > told:
                    told = tenth
                    print(f"\n{tenth} tenths: {self.tells()}", flush=True)
                self.stop.wait(min(every, max(left, 0)))
        finally:
            self.stop.set()
        for thread in threads:
            thread.join(120)
            assert not thread.is_alive(), "an actor does not end"

    def tells(self) -> str:
        """Return what was done so far, in a line."""
        done = ", ".join(f"{name} {count:,}" for name, count in sorted(self.done.items()))
        return f"{done}; {sum(self.excused.values()):,} errors of who was ended, {len(self.problems)} others"

    def _repeat(self, act: Callable[[random.Random], None], draw: random.Random) -> None:
        while not self.stop.is_set():
            began = time.monotonic()
            try:
                act(draw)
                self.done[act.__name__] += 1
            except Exception as err:
                said = f"{act.__name__}: {type(err).__name__} {_code(err)} {err}"
                if self._excusable(err, began):
                    self.excused[re.sub(r"\d+", "N", said.partition("\n")[0])] += 1
                else:
                    self.problems.append(said)
                self.stop.wait(0.2)

    def _excusable(self, err: Exception, began: float) -> bool:
        """Return whether an error is that of something that was ended meanwhile."""
        if not any(end + GRACE > began for _, end in self._ended):
            return False
        # what psycopg2 makes of an error that came while it decoded a notice
        err = err.__cause__ if isinstance(err, SystemError) and isinstance(err.__cause__, Exception) else err
        code = _code(err)
        if isinstance(err, psycopg2.Error):
            return code in ENDED or code.startswith("08") or not code
        return isinstance(err, DbinferError)

    @contextmanager
    def _ending(self) -> Iterator[None]:
        begin = time.monotonic()
        # until it is done, there is no end of it
        self._ended.append((begin, float("inf")))
        try:
            yield
        finally:
            self._ended[-1] = (begin, time.monotonic())

    def ask(self, draw: random.Random) -> None:
        """Ask some statements in one session, some of which are cancelled: no answer is wrong, none mixes versions."""
        timeout = 0
        with self.broken.session() as db:
            for _ in range(draw.randrange(1, 20)):
                first, second = draw.sample(crowd.MODELS, 2)
                shape = draw.choice(sorted(crowd.SHAPES))
                before, timeout = timeout, draw.choice([0, 0, 0, 2, 10, 50])
                try:
                    # which the timeout before may cancel
                    rows(db, f"SET statement_timeout = {timeout}")
                    found = rows(db, crowd.SHAPES[shape].format(a=first, b=second))
                except psycopg2.errors.QueryCanceled:
                    timeout = max(before, timeout)
                    assert timeout, "a statement without a timeout was cancelled"
                    self.done["cancelled"] += 1
                    continue
                wrong = crowd.wrong_in(found, first, second)
                assert not wrong, f"{shape}: {wrong}"
                self.done["statements"] += 1

    def job(self, draw: random.Random) -> None:
        """Score a table into another; after an error the next time goes on there."""
        score("mixed", "soaked", ScoreOptions(model="colours", batch=draw.choice([20, 200])), self.broken.dsn)
        with self.broken.session() as db:
            (found,) = rows(db, SCORED)
            assert found == JOB, f"a job scored {found} instead of {JOB}"
            rows(db, "DROP TABLE soaked, soaked_errors")

    def load(self, draw: random.Random) -> None:
        """Load files into a table: all or none."""
        load(self.folder / "files", LoadOptions(table="loads"), self.broken.dsn)
        with self.broken.session() as db:
            assert ask(db, "SELECT count(*) FROM loads") == FILES
            rows(db, "DROP TABLE loads")

    def bad(self, draw: random.Random) -> None:
        """Score a torn image in all ways."""
        model = draw.choice(["alpha", "colours"])
        with self.broken.session() as db:
            assert ask(db, "SELECT dbinfer.predict(%s, %s, on_error => 'null')", TORN, model) is None
            assert ask(db, "SELECT dbinfer.problem(%s, %s)", TORN, model)
            try:
                rows(db, "SELECT dbinfer.predict(%s, %s)", TORN, model)
            except psycopg2.errors.InvalidBinaryRepresentation:
                return
            raise AssertionError("a torn image was scored")

    def change(self, draw: random.Random) -> None:
        """Deploy, activate and drop."""
        with self.broken.session() as db:
            crowd.change(db, self.broken.dsn, self.folder, draw)
        self.forget()
        self.stop.wait(1.0)

    def deed(self, draw: random.Random) -> None:
        """End something, after a pause."""
        if self.stop.wait(self.pause):
            return
        # each in turn, so that a short run has all of them
        deeds = (self.worker, self.session, self.rest, self.engine, self.crash, self.restart)
        chosen = deeds[sum(self.done[each.__name__] for each in deeds) % len(deeds)]
        chosen()
        self.done[chosen.__name__] += 1

    def worker(self) -> None:
        """Kill a worker of the engine."""
        with self.broken.session() as db:
            pids = [pid for top in engines(db) for pid in below(top)]
        with self._ending():
            for pid in [pid for pid in pids if title(pid).startswith("dbinfer-worker")][:1]:
                kill(pid)

    def engine(self) -> None:
        """Kill the engine's first process."""
        with self.broken.session() as db:
            pids = engines(db)
        with self._ending():
            for pid in pids:
                kill(pid)

    def rest(self) -> None:
        """Tell the engine to end when it has done what it is at: nobody may notice."""
        engine(EngineOptions(stop=True), self.broken.dsn)

    def session(self) -> None:
        """End somebody's session."""
        with self._ending(), self.broken.session() as db:
            rows(db, f"SELECT pg_terminate_backend(pid) FROM ({SESSIONS}) s")

    def crash(self) -> None:
        """Kill a server process: the server ends all sessions and recovers."""
        with self._ending(), self.broken.session() as db:
            for (pid,) in rows(db, SESSIONS):
                kill(pid)
                # until the server has noticed and ends this session, too: a new one may still be let in before
                with suppress(psycopg2.Error):
                    rows(db, "SELECT pg_sleep(60)")
                    raise AssertionError("the server did not notice that one of its processes was killed")
            self._answers()

    def restart(self) -> None:
        """Stop the server and start it again."""
        with self._resting, self._ending():
            embedded.down(self.broken.server.home)
            embedded.up(self.broken.server.home)
            self._answers()

    def _answers(self) -> None:
        end = time.monotonic() + 120
        while True:
            with suppress(psycopg2.OperationalError), self.broken.session() as db:
                ask(db, "SELECT 1")
                return
            assert time.monotonic() < end, "the server does not come back"
            time.sleep(0.1)


def _code(err: Exception) -> str:
    return getattr(err, "pgcode", None) or ""


def engines(db: Connection) -> list[int]:
    """Return the first process of each engine of the server."""
    return [pid for (pid,) in rows(db, "SELECT pid FROM dbinfer.engines")]


@dataclass
class Samples:
    """What the server's processes, the engine's and this client hold, and what lies about."""

    broken: Breakable
    taken: list[dict[str, float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._began = time.monotonic()
        self.before = self.shared()

    def take(self) -> None:
        """Take a sample; none where the server is just recovering."""
        with suppress(psycopg2.Error), closing(psycopg2.connect(self.broken.dsn)) as db:
            tops = engines(db)
            postmaster = int((Path(self.broken.server.data_dir) / "postmaster.pid").read_text().split()[0])
            server, own = below(postmaster), [pid for top in tops for pid in below(top)]
            self.taken.append(
                {
                    "seconds": time.monotonic() - self._began,
                    "server_mb": sum(map(memory_mb, server)),
                    "engine_mb": sum(map(memory_mb, own)),
                    "client_mb": memory_mb("self"),
                    "client_files": len(list(Path("/proc/self/fd").iterdir())),
                    "engine_files": sum(map(files, tops)),
                    "cache_mb": size_mb(self.broken.cache),
                    "log_mb": size_mb(self.broken.server.home / "engine"),
                    **{name: len(found) for name, found in self.shared().items()},
                }
            )

    def shared(self) -> dict[str, set[str]]:
        """Return the semaphores and the shared memory of this machine."""
        found = {
            kind: {line.split()[1] for line in Path(f"/proc/sysvipc/{kind}").read_text().splitlines()[1:]}
            for kind in ("sem", "shm")
        }
        return found | {"posix_shm": {path.name for path in Path("/dev/shm").iterdir()}}


def memory_mb(pid: int | str) -> float:
    """Return a process's memory and its share of what it shares, in MB; 0 where it has ended.

    Without pages of files: the kernel may drop them, and a library's count for more when others end that map it.
    """
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()[1:]
        kilobytes = {name: int(text.split()[0]) for name, _, text in (line.partition(":") for line in lines)}
        return (kilobytes["Pss"] - kilobytes["Pss_File"]) * 1024 / 1e6
    return 0.0


def files(pid: int) -> int:
    """Return how many files a process has open."""
    with suppress(OSError):
        return len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return 0


def size_mb(folder: Path) -> float:
    """Return the size of the files below a folder, in MB."""
    total = 0
    # os.walk goes on where a folder has gone meanwhile; rglob ends with an error
    for parent, _, names in os.walk(folder):
        for name in names:
            with suppress(OSError):
                total += os.stat(os.path.join(parent, name)).st_size
    return total / 1e6
