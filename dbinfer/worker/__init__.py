"""worker: scores outside of the database, on any host, what its role's jobs and requests ask for."""

from __future__ import annotations

from dbinfer.worker.running import WorkerOptions, WorkerReport, worker

__all__ = ["WorkerOptions", "WorkerReport", "worker"]
