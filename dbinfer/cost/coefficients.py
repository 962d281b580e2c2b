"""Coefficients of the terms, with the machine that they were measured on; those that are shipped, or a file's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dbinfer.cost.facts import Network
from dbinfer.errors import DataError

FORM = 1
SHIPPED = Path(__file__).with_name("shipped.json")
POINTS = Path(__file__).with_name("points.json")


@dataclass(frozen=True)
class Coefficients:
    """What a machine takes.

    Attributes:
        machine: processor, cores, versions, date.
        seconds: of one core, by term.
        crowded: by group of terms, how much longer it takes where all cores work.
        start: seconds before a process scores its first row: `backend` without compiling, `engine`.
        models: networks that were measured, by name; those of another precision as `NAME PRECISION`.
        error: largest and median relative error on statements that were not used for the fit.
        scale: by which those of networks and of pixels were multiplied for another machine; empty for none.
    """

    machine: dict[str, Any]
    seconds: dict[str, float]
    crowded: dict[str, float]
    start: dict[str, float]
    models: dict[str, Network]
    error: dict[str, float] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"form": FORM, **asdict(self)}


def from_dict(values: Mapping[str, Any], name: str) -> Coefficients:
    """Return the coefficients of a file's JSON.

    Raises:
        DataError: it is no such file, or one of another version.
    """
    given = dict(values)
    try:
        if given.pop("form") != FORM:
            raise KeyError
        models = {key: Network(**facts) for key, facts in given.pop("models").items()}
        if not all(isinstance(value, dict) for value in given.values()):
            raise TypeError
        return Coefficients(models=models, **given)
    except (KeyError, TypeError, AttributeError) as err:
        raise DataError(
            f"{name} holds no coefficients of this version", "Measure again: dbinfer plan --calibrate"
        ) from err


def read(path: Path) -> Coefficients:
    """Return the coefficients of a file.

    Raises:
        DataError: it cannot be read, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise DataError(f"the coefficients in {path} cannot be read: {err}") from err
    if not isinstance(values, dict):
        raise DataError(f"{path} holds no coefficients", "Measure again: dbinfer plan --calibrate")
    # a report of `dbinfer bench plan` has them among other things
    return from_dict(values.get("coefficients", values), str(path))


def write(path: Path, found: Coefficients) -> None:
    """Keep coefficients in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found.to_dict(), indent=1) + "\n", encoding="utf-8")


@cache
def shipped() -> Coefficients:
    """Return the coefficients that come with dbinfer."""
    return read(SHIPPED)


def scaled(found: Coefficients, here: Mapping[str, float]) -> Coefficients:
    """Return coefficients for another machine, by what its probe took (see bench.probe).

    Networks are scaled in their milliseconds. The coefficient of inference stays: with it come also the milliseconds of
    deployed networks, which are another machine's trial.

    Raises:
        DataError: there is no such probe of the machine that was measured.
    """
    there = found.machine.get("probe")
    if not isinstance(there, dict) or not all(_above_zero(there.get(name)) for name in here):
        raise DataError(
            "the coefficients do not say how fast the machine was that they were measured on",
            "Leave out --here, or measure again: dbinfer plan --calibrate",
        )
    networks, pixels = here["infer"] / there["infer"], here["decode"] / there["decode"]
    return replace(
        found,
        seconds={name: value if name == "infer" else value * pixels for name, value in found.seconds.items()},
        start={name: value * pixels for name, value in found.start.items()},
        models={name: network.slowed(networks) for name, network in found.models.items()},
        scale={"networks": networks, "pixels": pixels},
    )


def _above_zero(value: object) -> bool:
    return isinstance(value, int | float) and value > 0
