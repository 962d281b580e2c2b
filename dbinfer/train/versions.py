"""Versions in the database around a training: the Keras file that it begins with, and the model that it leaves there,
converted, compared, tried and deployed, but active only if asked.
"""

from __future__ import annotations

import json
from dataclasses import replace

from dbinfer.base.errors import RegistryError
from dbinfer.base.progress import OnProgress, Progress
from dbinfer.database.connection import session
from dbinfer.models.deployment import DeployOptions, DeployReport, checked_name, deploy, read_limits
from dbinfer.models.keras_file import fetch
from dbinfer.models.registry import activate
from dbinfer.train.comparison import Version, active_version, compare, not_compared
from dbinfer.train.options import FILE, VERSION, TrainJob
from dbinfer.train.report import Comparison, TrainReport
from dbinfer.train.setup import Setup
from dbinfer_models import write_manifest

FROM = "from"  # the folder, within the run's, of what it begins with


def fetched(job: TrainJob) -> TrainJob:
    """Return the job on the file of the version that it names, with the version's labels; else the job as it is.

    Raises:
        RegistryError: there is no such version, it has no Keras file, or the role may not have it.
    """
    if FILE.fullmatch(job.network) or not VERSION.fullmatch(job.network):
        return job
    path = job.folder / FROM / f"{job.name}.keras"
    found = fetch(job.network, path, job.dsn or None)
    # Beside the file: how images become its input, as for any other one
    write_manifest(path.parent, found.manifest)
    return replace(job, network=str(path), version=found.version, labels=list(found.manifest.labels))


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


def deploy_trained(report: TrainReport, job: TrainJob, setup: Setup, progress: OnProgress) -> TrainReport:
    """Deploy what a run has left, where the job asks for it, and compare it with the version that is active by then.

    Args:
        setup: of its training.

    Returns:
        The report with both.
    """
    if not job.deploy:
        return report
    from dbinfer.convert import ConvertOptions, convert

    dsn = job.dsn or None
    active = active_version(job.deploy, dsn)
    ir = report.model.with_suffix(".xml")
    convert(report.model, ir, ConvertOptions(force=True), progress)
    options = DeployOptions(
        name=job.deploy,
        alias=job.alias or None,
        # After the comparison: a run that is stopped in between still has the old version to compare with
        activate=False,
        source=report.model if job.source else None,
    )
    deployed = deploy(ir, options, dsn, progress)
    # Of a run that was complete, the rows may have changed since
    same_rows = report.run["images"] == setup.images
    compared = _compared(deployed, active, setup if same_rows else None, dsn, progress)
    if job.activate:
        progress(Progress("activating"))
        activate(f"{deployed.name}@{deployed.version}", dsn)
        deployed = replace(deployed, active=True)
    return replace(report, deployed=deployed, comparison=compared)


def _compared(
    deployed: DeployReport, active: Version | None, setup: Setup | None, dsn: str | None, progress: OnProgress
) -> Comparison:
    """Compare a new version with the one that was active, and keep the verdict with it."""
    manifest = deployed.manifest
    new = Version(f"{deployed.name}@{deployed.version}", manifest.task, tuple(manifest.labels))
    if active and setup is None:
        why = "the data has other rows by now, and nothing tells which were held out"
        return not_compared(new, active, why)
    found = compare(new, active, setup.val if setup else None, dsn, progress)
    if found.measure:
        with session(dsn, error=RegistryError, catalog_only=True) as conn, conn.cursor() as cur:
            kept = json.dumps(found.to_dict())
            cur.execute(
                "SELECT dbinfer._keep_comparison(%s, %s, %s)", (deployed.name, deployed.version, kept)
            )
    return found
