"""What a report is asked, and what became of it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from dbinfer.base.errors import UsageError
from dbinfer.base.options import documented, option
from dbinfer.base.report import Report

# The share of keys is a whole number of 2 ** 20, see sql/client/report_sample.sql
MAX_SAMPLE = 1_000_000


@documented
@dataclass(frozen=True)
class ReportOptions:
    """What the page shows, and where it is written."""

    out: Path = option(Path("report.html"), "The HTML file to write.")
    column: str = option("img", "Column with the images.")
    key: str | None = option(
        None,
        "Column (or columns: a,b) that identifies a row. Default: the columns before `model` in the results, else id.",
    )
    label: str | None = option(
        None, "Column with the true class. Default: label, if there is one; '': no labels."
    )
    truth: str | None = option(None, "Column with true masks (image files). Default: truth, if there is one.")
    model: str | None = option(None, "Show results of name@3. Default: the version that scored last.")
    against: str | None = option(
        None, "Compare with results of name@2. Default: the version before; '': none."
    )
    query: str | None = option(
        None,
        "Draw what this query of dbinfer.estimate or dbinfer.find says, instead of a table of results.",
    )
    sample: int = option(
        20_000, "How many rows of a larger table to show, chosen by the hash of their keys.", least=1
    )

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
        estimate, low, high: of a query of dbinfer.estimate without groups. Of a query, rows are those of the table that
            it estimates, or those that it has found, and sampled those that were scored, or are shown.
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
    estimate: float | None = None
    low: float | None = None
    high: float | None = None
