"""Training: Keras networks of the zoo become models that `dbinfer convert` and `dbinfer deploy` take.

Importing this needs neither TensorFlow nor numpy.
"""

from __future__ import annotations

from dbinfer.train.options import TrainJob, TrainOptions, make_job, read_options
from dbinfer.train.report import Epoch, TrainReport
from dbinfer.train.strategies import run, train

__all__ = [
    "Epoch",
    "TrainJob",
    "TrainOptions",
    "TrainReport",
    "make_job",
    "read_options",
    "run",
    "train",
]
