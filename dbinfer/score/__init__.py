"""Calls the database functions for clients: on local files (predict_files) and on whole tables (score)."""

from __future__ import annotations

from dbinfer.score.files import Answer, predict_files
from dbinfer.score.functions import FUNCTIONS, Arguments
from dbinfer.score.table import EXISTING, ScoreOptions, ScoreReport, score

__all__ = [
    "EXISTING",
    "FUNCTIONS",
    "Answer",
    "Arguments",
    "ScoreOptions",
    "ScoreReport",
    "predict_files",
    "score",
]
