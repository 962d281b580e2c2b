"""Calls the database functions for clients: on local files (predict) and on whole tables (score)."""

from __future__ import annotations

from dbinfer.score.files import Answer, PredictOptions, PredictReport, predict
from dbinfer.score.functions import FUNCTIONS
from dbinfer.score.table import EXISTING, ScoreOptions, ScoreReport, score

__all__ = [
    "EXISTING",
    "FUNCTIONS",
    "Answer",
    "PredictOptions",
    "PredictReport",
    "ScoreOptions",
    "ScoreReport",
    "predict",
    "score",
]
