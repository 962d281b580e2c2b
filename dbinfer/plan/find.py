"""Finds a plan's numbers: in a database, in a file of coefficients, or in those that are shipped."""

from __future__ import annotations

from collections.abc import Mapping

from dbinfer.cost import Coefficients, Network, shipped
from dbinfer.cost.coefficients import read, scaled
from dbinfer.dsn import named
from dbinfer.errors import UsageError
from dbinfer.plan.calibrate import calibrate, kept_file
from dbinfer.plan.database import database_source
from dbinfer.plan.notes import scale_note
from dbinfer.plan.options import CORES, PlanOptions
from dbinfer.plan.source import Source, assumed_picture
from dbinfer.progress import OnProgress
from dbinfer.score.functions import BY_TASK


def find_source(model: str | None, options: PlanOptions, dsn: str | None, progress: OnProgress) -> Source:
    """Return the source of a plan; see dbinfer.plan.plan."""
    deployed = named(dsn) is not None or options.table is not None
    if deployed and options.precision is not None:
        raise UsageError(
            f"precision is {options.precision!r}, but a deployed model has its own",
            "Leave it out; name another version of the model, if you have one of that precision.",
        )
    found = coefficients(options, dsn, progress)
    if not deployed:
        return _measured(model, options, found)
    return database_source(model, options, found, dsn, progress)


def coefficients(options: PlanOptions, dsn: str | None, progress: OnProgress) -> Coefficients:
    """Return the coefficients to use."""
    if options.calibrate:
        return calibrate(dsn, progress)
    path = options.coefficients or kept_file()
    found = read(path) if options.coefficients or path.exists() else shipped()
    if not options.here:
        return found
    from dbinfer.bench.probe import probe

    return scaled(found, probe())


def _measured(model: str | None, options: PlanOptions, found: Coefficients) -> Source:
    """Return the source without a database."""
    network = measured_network(model, options.precision or "f32", found.models)
    picture, notes = assumed_picture(options, network)
    cores = options.cores or CORES
    if options.cores is None:
        notes += (f"hosts of {CORES} cores (--cores)",)
    notes += scale_note(found, networks=True)
    assert options.images is not None
    return Source(
        title=network.name,
        function=BY_TASK.get(network.task, "predict"),
        coefficients=found,
        network=network,
        pictures=(picture,),
        images=options.images,
        cores=cores,
        segments=options.segments or cores,
        skew=options.skew or 1.0,
        notes=notes,
    )


def measured_network(model: str | None, precision: str, models: Mapping[str, Network]) -> Network:
    """Return the facts of a network that was measured.

    Raises:
        UsageError: there is none of that name, or not in that precision.
    """
    if not models:
        raise UsageError(
            "the coefficients hold no network",
            "Name a database with --dsn, where the model is deployed, or measure again: dbinfer plan --calibrate",
        )
    names = ", ".join(sorted({network.name for network in models.values()}))
    if model is None:
        raise UsageError("no model is named", f"Measured are {names}; or name a database with --dsn.")
    there = {network.precision: network for network in models.values() if network.name == model}
    if not there:
        raise UsageError(
            f"no model {model!r} was measured; there are {names}",
            "Deploy it, and name the database with --dsn: its trial there says what it takes.",
        )
    if precision not in there:
        raise UsageError(f"{model} was not measured in {precision}, but in {', '.join(there)}")
    return there[precision]
