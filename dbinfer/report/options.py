"""What a report is asked, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbinfer.base.errors import UsageError
from dbinfer.base.report import Report

# The share of keys is a whole number of 2 ** 20, see sql/client/report_sample.sql
MAX_SAMPLE = 1_000_000


@dataclass(frozen=True)
class ReportOptions:
    """What the page shows, and where it is written.

    Attributes:
        out: the HTML file.
        column, key: of the table of images: the image, and what names a row (several columns with commas); key None:
            the columns that a table of results has before its column `model`, else `id`.
        label: column with the true class; None: `label`, where there is one; '': no labels.
        truth: column with true masks (image files); None: `truth`, where there is one.
        model: name@3, which results are shown; None: those of the version that scored last.
        against: name@2, which results these are compared with; None: those of the version before.
        sample: of a larger table so many rows are shown, chosen by the hash of their keys.
    """

    out: Path = Path("report.html")
    column: str = "img"
    key: str | None = None
    label: str | None = None
    truth: str | None = None
    model: str | None = None
    against: str | None = None
    sample: int = 20_000

    def check(self) -> None:
        """Raise UsageError for values that make no page."""
        if not 1 <= self.sample <= MAX_SAMPLE:
            raise UsageError(f"sample is {self.sample}, but must be 1 to {MAX_SAMPLE} rows")
        if not self.out.name or self.out.is_dir():
            raise UsageError(f"{str(self.out)!r} is a folder", "Name the HTML file to write with --out.")


@dataclass(frozen=True)
class PageReport(Report):
    """What a page shows.

    Attributes:
        out: the HTML file; bytes: its size.
        table, predictions: full names.
        model, against: name@version of the results and of those they are compared with; None where nobody knows.
        rows: of results there are; sampled: of these the page shows; errors: bad rows.
        accuracy: share of labelled rows whose class is their label; dice, iou: mean of the masks; None without labels.
        agreement: share of rows in which both versions say the same, of masks their mean IoU; None with one version.
    """

    out: Path
    bytes: int
    table: str
    predictions: str
    model: str | None
    against: str | None
    rows: int
    sampled: int
    errors: int
    accuracy: float | None = None
    dice: float | None = None
    iou: float | None = None
    agreement: float | None = None
