"""Calls the database functions for clients: on local files (predict) and on whole tables (score)."""

from __future__ import annotations

from dbinfer.score.files import Answer, PredictOptions, PredictReport, predict
from dbinfer.score.options import FUNCTIONS, ScoreOptions, ScoreReport
from dbinfer.score.scoring import CancelReport, JobsReport, Scoring, cancel_job, jobs, score

__all__ = [
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
