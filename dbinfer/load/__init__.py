"""Puts image files into a table: found, checked by their first bytes, and streamed in one transaction."""

from __future__ import annotations

from dbinfer.imagefiles import Refused
from dbinfer.load.loader import LoadOptions, LoadReport, load
from dbinfer.load.table import Columns

__all__ = ["Columns", "LoadOptions", "LoadReport", "Refused", "load"]
