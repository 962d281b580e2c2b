"""From a training into the database: its model is converted, compared, tried and deployed, but active only if asked."""

from __future__ import annotations

from dataclasses import replace

from dbinfer.base.errors import RegistryError
from dbinfer.base.progress import OnProgress
from dbinfer.database.connection import session
from dbinfer.models.deployment import DeployOptions, checked_name, deploy, read_limits
from dbinfer.train.options import TrainJob
from dbinfer.train.report import TrainReport


def check_deploy(job: TrainJob) -> None:
    """Raise before any long work where the model could not be deployed: its name, the server, the right.

    Raises:
        RegistryError, ServerError: one sentence each.
    """
    if not job.deploy:
        return
    checked_name(job.deploy)
    with session(job.dsn or None, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
        read_limits(cur)  # only those who may deploy can read them


def deploy_trained(report: TrainReport, job: TrainJob, progress: OnProgress) -> TrainReport:
    """Deploy what a run has left, where the job asks for it, and return the report with that."""
    if not job.deploy:
        return report
    from dbinfer.convert import ConvertOptions, convert

    ir = report.model.with_suffix(".xml")
    convert(report.model, ir, ConvertOptions(force=True), progress)
    options = DeployOptions(
        name=job.deploy,
        alias=job.alias or None,
        activate=job.activate,
        source=report.model if job.source else None,
    )
    return replace(report, deployed=deploy(ir, options, job.dsn or None, progress))
