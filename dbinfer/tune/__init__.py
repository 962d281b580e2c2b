"""The search for the options that train the best model, with Optuna; importing this needs neither it nor TensorFlow."""

from __future__ import annotations

from dbinfer.tune.crew import tune
from dbinfer.tune.options import TuneOptions
from dbinfer.tune.report import Trial, TuneReport

__all__ = ["Trial", "TuneOptions", "TuneReport", "tune"]
