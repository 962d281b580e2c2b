"""As many processes as cores that score images with the backends' own code, outside of the database."""

from __future__ import annotations

import multiprocessing
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from dbinfer.base.errors import DbinferError
from dbinfer.bench.networks import ModelFiles


@dataclass(frozen=True)
class Job:
    """What a worker scores, and with what; a worker loads the model once and keeps it."""

    files: ModelFiles
    function: str
    images: tuple[bytes, ...]
    exact: bool = False


class _Worker:
    """One process: waits for a message, works, answers with a number of images."""

    def __init__(self, pipe: Any, counter: Any) -> None:
        self.pipe, self.counter = pipe, counter
        self.score: Callable[[bytes], Any] = lambda img: None
        self.images: tuple[bytes, ...] = ()

    def serve(self) -> None:
        while (message := self.pipe.recv()) is not None:
            try:
                self.pipe.send(self.answer(*message))
            # The harness waits for an answer, whatever happens
            except Exception as err:
                self.pipe.send(f"{type(err).__name__}: {err}")

    def answer(self, kind: str, *values: Any) -> int:
        work: dict[str, Callable[..., int]] = {"job": self.load, "loop": self.loop}
        return work[kind](*values)

    def load(self, job: Job) -> int:
        self.score, self.images = job.files.scorer(job.function, job.exact), job.images
        self.score(self.images[0])
        return 0

    def loop(self, total: int, chunk: int) -> int:
        """Take chunks from the common counter until `total` images are scored."""
        score, images, done = self.score, self.images, 0
        count = len(images)
        while True:
            with self.counter.get_lock():
                first = self.counter.value
                self.counter.value = first + chunk
            if first >= total:
                return done
            last = min(total, first + chunk)
            for i in range(first, last):
                score(images[i % count])
            done += last - first


def _serve(pipe: Any, counter: Any) -> None:
    os.setsid()  # as PostgreSQL's backends do: Linux shares the cores between sessions (autogroup)
    with suppress(EOFError):  # the harness was killed
        _Worker(pipe, counter).serve()


class Workers:
    """The processes; see `workers`."""

    def __init__(self, processes: int) -> None:
        # A forked process would inherit locks of OpenVINO's and OpenCV's threads, but not the threads
        context = multiprocessing.get_context("spawn")
        self.processes = processes
        self._counter = context.Value("q", 0)
        self._pipes, self._workers = [], []
        for _ in range(processes):
            ours, theirs = context.Pipe()
            worker = context.Process(target=_serve, args=(theirs, self._counter), daemon=True)
            worker.start()
            # With our copy open, a worker that dies would never end our recv
            theirs.close()
            self._pipes.append(ours)
            self._workers.append(worker)

    def load(self, job: Job) -> None:
        """Make every process ready: model compiled, images in memory, one image scored."""
        self._ask([("job", job)] * self.processes)

    def loop(self, total: int) -> float:
        """Score `total` images together and return the seconds that took."""
        self._counter.value = 0
        # Small enough for all to end together, large enough for the common counter to cost nothing
        chunk = max(1, total // (self.processes * 200))
        started = time.perf_counter()
        self._ask([("loop", total, chunk)] * self.processes)
        return time.perf_counter() - started

    def _ask(self, messages: list[tuple[Any, ...]]) -> list[int]:
        for pipe, message in zip(self._pipes, messages, strict=True):
            pipe.send(message)
        answers = [pipe.recv() for pipe in self._pipes]
        wrong = [answer for answer in answers if isinstance(answer, str)]
        if wrong:
            raise DbinferError(f"a process of the bare loop failed: {wrong[0]}")
        return answers

    def close(self) -> None:
        """End the processes."""
        for pipe, worker in zip(self._pipes, self._workers, strict=True):
            if worker.is_alive():
                pipe.send(None)
        for worker in self._workers:
            worker.join(10)


@contextmanager
def workers(processes: int) -> Iterator[Workers]:
    """Yield that many processes, and end them."""
    started = Workers(processes)
    try:
        yield started
    finally:
        started.close()
