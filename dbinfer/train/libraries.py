"""Imports what trains, quietly, or says what is missing."""

from __future__ import annotations

import os
from importlib.util import find_spec

from dbinfer.errors import TrainError
from dbinfer.pins import install


def check_installed() -> None:
    """Raise TrainError where TensorFlow is not installed, without importing it."""
    if find_spec("tensorflow") is None:
        raise _missing()


def import_tensorflow() -> None:
    """Import TensorFlow without its noise; TrainError where it is not installed."""
    # Keras reads it once, when it is imported
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    from dbinfer.convert.tensorflow_alone import tensorflow

    try:
        tensorflow()
    except ImportError as err:
        raise _missing() from err


def _missing() -> TrainError:
    return TrainError("training needs TensorFlow, which is not installed", install("train"))
