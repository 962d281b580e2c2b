"""The search for the options that train the best model, with Optuna; importing this needs neither it nor TensorFlow."""

from __future__ import annotations

from dbinfer.tune.options import TuneOptions
from dbinfer.tune.search import Trial, TuneReport, tune

__all__ = ["Trial", "TuneOptions", "TuneReport", "tune"]
