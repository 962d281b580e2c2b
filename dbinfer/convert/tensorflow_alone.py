"""TensorFlow without the libraries that Keras takes along where it finds them, and in half the time."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from dbinfer.convert.quiet import quiet

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
