"""What a conversion did: files, shapes, the manifest, and how closely the IR equals its source."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from dbinfer_udf.manifest import Manifest


@dataclass(frozen=True)
class Port:
    """One input or output: its name, its shape (-1 where any size fits) and its element type."""

    name: str
    shape: tuple[int, ...]
    type: str


@dataclass(frozen=True)
class Check:
    """The comparison of source and IR.

    Attributes:
        framework: what ran the source, or "" where nothing could.
        reason: why the source was not run, or "".
        images: how many images were compared.
        difference: largest absolute difference of an output value; None where not run.
        magnitude: largest absolute value the source gave.
        tolerance: limit for difference / magnitude.
    """

    framework: str = ""
    reason: str = ""
    images: int = 0
    difference: float | None = None
    magnitude: float | None = None
    tolerance: float = 0.0

    @property
    def done(self) -> bool:
        """Whether source and IR were compared."""
        return self.difference is not None


@dataclass(frozen=True)
class ConvertReport:
    """The facts of one conversion.

    Attributes:
        source, output, weights_file: paths; `size` is the bytes of both written files together.
        source_format: name of the format, a key of FORMATS.
        inputs, outputs: of the IR.
        manifest: as embedded; `assumed` names its keys that nobody stated.
        written: False where the same content was there already.
        seconds: of the whole conversion.
    """

    source: Path
    source_format: str
    output: Path
    weights_file: Path
    weights: str
    size: int
    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    manifest: Manifest
    assumed: tuple[str, ...]
    check: Check
    written: bool
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        out = asdict(self)
        for key in ("source", "output", "weights_file"):
            out[key] = str(out[key])
        out["manifest"] = self.manifest.to_dict()
        out["check"]["done"] = self.check.done
        return out
