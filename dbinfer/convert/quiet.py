"""Silence for TensorFlow, whose C++ part writes to the process's standard output and error."""

from __future__ import annotations

import logging
import os
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """Send file descriptors 1 and 2, Python warnings and TensorFlow's log nowhere while the block runs.

    It changes the whole process: use it around single calls, not beside other threads that print.
    """
    # TensorFlow reads it when it is imported
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    # What Python still holds was meant to be seen
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
        # What was printed inside must not come out afterwards
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
