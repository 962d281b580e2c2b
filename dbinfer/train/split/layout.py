"""Which part of a network each process holds: the mesh of processes, and the presets that split layers over it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from dbinfer.base.errors import UsageError
from dbinfer.train.options import TrainJob

Axes = tuple[str | None, ...]
BATCH, MODEL = "batch", "model"  # names of the mesh's axes
OUTPUTS, INPUTS = -1, -2  # of a dense layer's or a convolution's kernel


@dataclass(frozen=True)
class Mesh:
    """How the processes share the work: `groups` of `parts`; a group holds the network once, a process one part of it.

    Processes are numbered group by group. Each group has its own part of every batch.
    """

    groups: int
    parts: int

    @classmethod
    def of(cls, job: TrainJob) -> Mesh:
        """Read --mesh GROUPSxPARTS; without it all processes share one network.

        Raises:
            UsageError: it cannot be understood, or needs another number of processes.
        """
        words = (job.mesh or f"1x{job.ranks}").split("x")
        if len(words) != 2 or not all(word.isdigit() and int(word) for word in words):
            raise UsageError(f"mesh is {job.mesh!r}, but must be GROUPSxPARTS", "Example: --mesh 2x2")
        groups, parts = map(int, words)
        if groups * parts != job.ranks:
            raise UsageError(
                f"the mesh {job.mesh} has {groups * parts} processes, but ranks is {job.ranks}",
                f"Set --ranks to {groups * parts}.",
            )
        return cls(groups, parts)

    def group(self, process: int) -> int:
        """Return the group of a process."""
        return process // self.parts


@dataclass
class Layout:
    """Decides for each variable, in the order in which the layers are built, how it is split.

    Attributes:
        name: of the preset.
        parts: over how many processes.
        axes: of each layer's kernel that is split: which of its axes.
    """

    name: str
    parts: int
    axes: dict[str, int] = field(default_factory=dict)
    dense: int = 0

    def of(self, path: str, shape: tuple[int, ...]) -> Axes:
        """Return an axis of the mesh, or None, for each axis of the variable; all None where it stays whole."""
        layer, _, kind = path.rpartition("/")
        if kind == "kernel":
            axis = PRESETS[self.name](self, len(shape))
            if axis is not None and shape[axis] % self.parts == 0:
                self.axes[layer] = axis
                return tuple(MODEL if number == axis % len(shape) else None for number in range(len(shape)))
        # The bias belongs to the outputs
        elif kind == "bias" and self.axes.get(layer) == OUTPUTS:
            return (MODEL,)
        return (None,) * len(shape)


def _dense_by_outputs(layout: Layout, dimensions: int) -> int | None:
    return OUTPUTS if dimensions == 2 else None


def _dense_in_pairs(layout: Layout, dimensions: int) -> int | None:
    if dimensions != 2:
        return None
    layout.dense += 1
    return OUTPUTS if layout.dense % 2 else INPUTS


def _all_by_outputs(layout: Layout, dimensions: int) -> int | None:
    return OUTPUTS if dimensions >= 2 else None


PRESETS: dict[str, Callable[[Layout, int], int | None]] = {
    "dense-by-outputs": _dense_by_outputs,
    "dense-in-pairs": _dense_in_pairs,
    "all-by-outputs": _all_by_outputs,
}


def distribution(mesh: Mesh, layout: Layout) -> Any:
    """Return Keras' ModelParallel over all processes of the group that JAX knows."""
    from keras import distribution as keras_distribution

    devices = keras_distribution.list_devices()
    grid = keras_distribution.DeviceMesh((mesh.groups, mesh.parts), (BATCH, MODEL), devices)

    class Split(keras_distribution.ModelParallel):  # type: ignore[misc]
        """ModelParallel that asks the layout for a variable of this path and shape, not a table of patterns."""

        def get_variable_layout(self, variable: Any) -> Any:
            # The optimizer's variables have the layout of the weights that they belong to
            if getattr(variable, "_layout", None) is not None:
                return variable._layout
            axes = layout.of(variable.path, tuple(variable.shape))
            return keras_distribution.TensorLayout(axes, grid)

    patterns = keras_distribution.LayoutMap(grid)
    # Each process brings the part of the batch that its group has
    return Split(layout_map=patterns, batch_dim_name=BATCH, auto_shard_dataset=False)
