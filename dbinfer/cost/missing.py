"""Names the steps of a row for which there is no coefficient, so that they count as nothing."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from dbinfer.cost.coefficients import Coefficients
from dbinfer.cost.facts import Network, Picture
from dbinfer.cost.terms import DECODE, FINISH, FIT, INFER, ROW, terms
from dbinfer_udf.header import FORMATS
from dbinfer_udf.manifest import TASKS

# of every picture that is resized, so it says nothing about the way in which this one is
COMMON = {"fit"}
SIDE = 224


def missing(found: Coefficients, pictures: Iterable[Picture], network: Network) -> tuple[str, ...]:
    """Return the steps that count as nothing.

    One term of a step may lack its coefficient: a fit leaves out what it cannot tell from nothing.
    """
    names: dict[str, None] = {}
    for picture in pictures:
        titles = {
            DECODE: f"decoding {picture.format}",
            FIT: "resizing",
            INFER: "inference",
            FINISH: f"results of {network.task}",
            ROW: "the way to the engine" if network.in_engine else "a row in the backend",
        }
        for group, amounts in terms(picture, network).items():
            if not found.seconds.keys() & ({name for name, amount in amounts.items() if amount} - COMMON):
                names[titles[group]] = None
    return tuple(names)


def lacking(found: Coefficients) -> tuple[str, ...]:
    """Return all steps that count as nothing, of images and networks of any kind."""
    # copied, made smaller at a part of the size, and made larger
    sizes = ((SIDE, SIDE), (3 * SIDE, 3 * SIDE), (SIDE // 2, SIDE // 2))
    pictures = [Picture(name, *size, bytes=5e4) for name in FORMATS for size in sizes]
    slow = Network("any", "f32", "any", SIDE, SIDE, 3, milliseconds=10.0)
    networks = [
        replace(slow, task=task, isolation=isolation) for task in TASKS for isolation in ("always", "never")
    ]
    return tuple(sorted({step for network in networks for step in missing(found, pictures, network)}))
