"""A statement to measure for a plan, and what it took, with all that a prediction needs to know."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from dbinfer.bench.pictures import Kind
from dbinfer.cost import Coefficients, Load, Network, Picture, statement_seconds


@dataclass(frozen=True)
class Case:
    """A statement to measure.

    Attributes:
        processes: that score it on PostgreSQL; on Greenplum the segments do.
        skew: the share of the rows that go to one segment of Greenplum before the rest is spread.
        held: not used for the fit.
    """

    network: str
    kind: Kind
    precision: str = "f32"
    processes: int = 1
    skew: float = 0.0
    held: bool = True

    @property
    def title(self) -> str:
        """Name for people."""
        return f"{self.network} {self.precision}, {self.kind.title}"


@dataclass(frozen=True)
class Point:
    """A measured statement.

    Attributes:
        kind: of the images, for people.
        rows: of each process; fresh: how many processes were new.
        seconds: of the whole statement, the least of some; spread: the longest of them / the least.
    """

    kind: str
    picture: Picture
    network: Network
    rows: tuple[float, ...]
    cores: int
    fresh: int
    seconds: float
    spread: float
    server: str
    held: bool

    @property
    def load(self) -> Load:
        """What the processes had to do."""
        return Load(self.rows, self.cores, self.fresh)

    def predicted(self, found: Coefficients) -> float:
        """Return the seconds that coefficients say."""
        return statement_seconds(found, (self.picture,), self.network, self.load)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {**asdict(self), "rows": list(self.rows)}


def point_of(values: Mapping[str, Any]) -> Point:
    """Return the point of a report."""
    known = {name: values[name] for name in Point.__dataclass_fields__}
    made = {"picture": Picture(**values["picture"]), "network": Network(**values["network"])}
    return Point(**{**known, **made, "rows": tuple(values["rows"])})
