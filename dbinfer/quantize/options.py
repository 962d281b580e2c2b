"""What a caller can say about a quantization."""

from __future__ import annotations

from dataclasses import dataclass

from dbinfer.errors import UsageError


@dataclass(frozen=True)
class QuantizeOptions:
    """How to quantize.

    Attributes:
        calibrate: SQL whose first column is the image (bytea).
        check: SQL whose columns are image and label (a class number or a label's text); empty: none.
        subset: how many images to calibrate with.
        limit: least agreement with the original (0..1); below it nothing is written.
        force: overwrite an output that is there.
        dsn: the database; see dbinfer.dsn.
    """

    calibrate: str = ""
    check: str = ""
    subset: int = 300
    limit: float = 0.99
    force: bool = False
    dsn: str | None = None

    def __post_init__(self) -> None:
        if self.subset < 1:
            raise UsageError(f"--subset is {self.subset}, but must be at least 1.")
        if not 0 <= self.limit <= 1:
            raise UsageError(f"--limit is {self.limit}, but must be 0 to 1.")
