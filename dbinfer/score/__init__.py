"""Calls the database functions for clients: on local files (predict), on tables (score), into files (export)."""

from __future__ import annotations

from dbinfer.score.export import ExportOptions, ExportReport, export
from dbinfer.score.files import Answer, PredictOptions, PredictReport, predict
from dbinfer.score.follow import FollowOptions, FollowReport, follow
from dbinfer.score.options import FUNCTIONS, ScoreOptions, ScoreReport
from dbinfer.score.scoring import CancelReport, JobsReport, Scoring, cancel_job, jobs, score

__all__ = [
    "FUNCTIONS",
    "Answer",
    "CancelReport",
    "ExportOptions",
    "ExportReport",
    "FollowOptions",
    "FollowReport",
    "JobsReport",
    "PredictOptions",
    "PredictReport",
    "ScoreOptions",
    "ScoreReport",
    "Scoring",
    "cancel_job",
    "export",
    "follow",
    "jobs",
    "predict",
    "score",
]
