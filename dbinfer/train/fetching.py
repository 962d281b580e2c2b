"""A deployed version goes on learning: its Keras file comes from the database into the folder of the run."""

from __future__ import annotations

from dataclasses import replace

from dbinfer.models.keras_file import fetch
from dbinfer.train.options import FILE, VERSION, TrainJob
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
