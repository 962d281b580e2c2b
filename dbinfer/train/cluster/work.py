"""Deals work out to the workers: whoever is free gets the next piece, and what a lost worker had goes to another."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from typing import Any

import tensorflow as tf

AHEAD = 3  # pieces per worker that are under way: one computed, and the next ones on their way
# The worker that had computed a value is lost, and the value with it
LOST = (tf.errors.UnavailableError, tf.errors.AbortedError, tf.errors.InternalError, tf.errors.CancelledError)


class Work:
    """See the module.

    Attributes:
        done: how many pieces each worker has done.

    Args:
        coordinator: TensorFlow's.
        workers: how many there are.
    """

    def __init__(self, coordinator: Any, workers: int) -> None:
        self._coordinator = coordinator
        self._pool = ThreadPoolExecutor(AHEAD * workers)
        self._limit = AHEAD * workers
        self._names = iter(coordinator.create_per_worker_dataset(_names))
        self.done: Counter[int] = Counter()

    def results(
        self, function: Callable[..., Any], pieces: Iterable[tuple[Any, ...]], again: bool
    ) -> Iterator[tuple[int, Any]]:
        """Yield (number, result) of each piece, in the order in which they are done.

        Args:
            function: gets the values of a piece; a tf.function over what `run` adds the worker's name to.
            pieces: what is computed.
            again: whether a piece may be done once more when its result was lost with its worker; else None is yielded.
        """
        run = _named(function)
        waiting: dict[Future[Any], tuple[int, tuple[Any, ...]]] = {}

        def hand_out(number: int, piece: tuple[Any, ...]) -> None:
            remote = self._coordinator.schedule(run, args=(self._names, *piece))
            waiting[self._pool.submit(remote.fetch)] = number, piece

        for number, piece in enumerate(pieces):
            hand_out(number, piece)
            while len(waiting) >= self._limit:
                yield from self._collect(waiting, hand_out, again)
        while waiting:
            yield from self._collect(waiting, hand_out, again)

    def _collect(
        self, waiting: dict[Future[Any], Any], hand_out: Callable[..., None], again: bool
    ) -> Iterator[Any]:
        for future in wait(waiting, return_when=FIRST_COMPLETED).done:
            number, piece = waiting.pop(future)
            try:
                name, result = future.result()
            except LOST:
                self._coordinator.schedule(_nothing)  # raises where a server is lost, not a worker
                if again:
                    hand_out(number, piece)
                else:
                    yield number, None
                continue
            self.done[int(name)] += 1
            yield number, result


def _named(function: Callable[..., Any]) -> Any:
    """Return a tf.function that also says which worker it ran on."""

    def run(names: Any, *piece: Any) -> Any:
        return next(names), function(*piece)

    return tf.function(run, reduce_retracing=True)


@tf.function  # type: ignore[untyped-decorator]
def _nothing() -> Any:
    return tf.constant(0)


def _names() -> Any:
    """Return a data set that gives the number of the worker that reads it, again and again.

    TensorFlow tells a function not where it runs. So the worker reads its own command line: ... member worker 1
    """
    words = tf.data.TextLineDataset("/proc/self/cmdline")
    number = words.map(lambda line: tf.strings.to_number(tf.strings.split(line, "\0")[-2], tf.int64))
    return number.cache().repeat()
