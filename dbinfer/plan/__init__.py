"""plan: how many hosts so many images a day need, or how long some hosts take, by what rows cost."""

from __future__ import annotations

from dbinfer.base.progress import OnProgress, silent
from dbinfer.plan.options import PlanOptions, PlanReport

__all__ = ["PlanOptions", "PlanReport", "plan"]


def plan(
    model: str | None = None,
    options: PlanOptions | None = None,
    dsn: str | None = None,
    progress: OnProgress = silent,
) -> PlanReport:
    """Return how many hosts score the images within the hours, or how many hours the hosts take.

    Args:
        model: one that was measured (resnet50, ...), or one that is deployed in the database; None: its default model.
        options: how many images, of which kind, on which hosts.
        dsn: a database whose model, table and hosts count; where none is named and no table either, what comes with
            dbinfer counts.

    Raises:
        UsageError: options that make no sense, or a model that was not measured.
        RegistryError: the database has no such model.
        DataError: the table or the column is not there, or holds no image.
    """
    from dbinfer.plan.forecast import run_plan

    return run_plan(model, options or PlanOptions(), dsn, progress)
