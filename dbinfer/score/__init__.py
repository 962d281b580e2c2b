"""Calls the database functions for clients: on local files (predict) and on whole tables (score)."""

from __future__ import annotations

from dbinfer.score.files import Answer, PredictOptions, PredictReport, predict
from dbinfer.score.listing import CancelReport, JobsReport, cancel_job, jobs
from dbinfer.score.options import EXISTING, FUNCTIONS, ScoreOptions, ScoreReport
from dbinfer.score.scoring import Scoring, score

__all__ = [
    "EXISTING",
    "FUNCTIONS",
    "Answer",
    "CancelReport",
    "JobsReport",
    "PredictOptions",
    "PredictReport",
    "ScoreOptions",
    "ScoreReport",
    "Scoring",
    "cancel_job",
    "jobs",
    "predict",
    "score",
]
