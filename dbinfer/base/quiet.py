"""Silence for TensorFlow, whose C++ part writes to the process's own output, and its import without the packages that
Keras imports needlessly.
"""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def quiet() -> Iterator[None]:
    """Send file descriptors 1 and 2, Python warnings and TensorFlow's log nowhere while the block runs.

    It changes the whole process: use it around single calls, not beside other threads that print.
    """
    # TensorFlow reads it when it is imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # What Python still buffers is meant to be seen
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [os.dup(1), os.dup(2)]
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 1)
        os.dup2(nowhere, 2)
        with warnings.catch_warnings(), _logs_off():
            warnings.simplefilter("ignore")
            yield
    finally:
        # What was printed inside must not appear afterwards
        sys.stdout.flush()
        sys.stderr.flush()
        for target, saved in enumerate(kept, start=1):
            os.dup2(saved, target)
            os.close(saved)
        os.close(nowhere)


@contextmanager
def _logs_off() -> Iterator[None]:
    before = logging.root.manager.disable
    logging.disable(logging.ERROR)
    try:
        yield
    finally:
        logging.disable(before)


# Keras wraps or draws with them, which nothing here asks of it; they took 2.0 of 4.4 s of processor time
OPTIONAL = ("jax", "matplotlib", "sklearn")


def tensorflow() -> Any:
    """Return the module tensorflow, imported in silence; ImportError where it is not installed."""
    with quiet(), _without(OPTIONAL):
        import tensorflow as tf
    return tf


@contextmanager
def _without(names: tuple[str, ...]) -> Iterator[None]:
    """Let modules look as if they were not installed, except those that are there already and Keras' backend."""
    backend = os.environ.get("KERAS_BACKEND")
    hidden = [name for name in names if name not in sys.modules and name != backend]
    # what is None there cannot be imported
    sys.modules.update(dict.fromkeys(hidden))  # type: ignore[arg-type]
    try:
        yield
    finally:
        for name in hidden:
            if sys.modules.get(name, name) is None:
                del sys.modules[name]
