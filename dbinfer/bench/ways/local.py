"""The bare loop: the backends' code in as many processes as cores, images in memory."""

from __future__ import annotations

from dbinfer.bench.pool import Job
from dbinfer.bench.ways.context import Context, Sample


class Bare:
    """Decode, fit, infer and output of every image, without a database."""

    def __init__(self, context: Context) -> None:
        self.context = context
        context.pool.load(Job(context.files, context.cell.function, context.images))

    def measure(self) -> Sample:
        """Score as many images as the big table has rows."""
        return Sample(self.context.rows / self.context.pool.loop(self.context.rows))
