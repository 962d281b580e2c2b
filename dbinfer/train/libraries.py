"""Imports what trains, quietly, or says what is missing."""

from __future__ import annotations

import os

from dbinfer.errors import TrainError


def import_tensorflow() -> None:
    """Import TensorFlow without its noise; TrainError where it is not installed."""
    # Keras reads it once, when it is imported
    os.environ.setdefault("KERAS_BACKEND", "tensorflow")
    from dbinfer.convert.tensorflow_alone import tensorflow

    try:
        tensorflow()
    except ImportError as err:
        raise TrainError(
            "training needs TensorFlow, which is not installed", "Install it: pip install 'dbinfer[train]'"
        ) from err
