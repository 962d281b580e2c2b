"""Puts image files into a table: found, checked by their first bytes, and streamed in one transaction."""

from __future__ import annotations

from dbinfer.load.loader import load
from dbinfer.load.options import LoadOptions, LoadReport

__all__ = ["LoadOptions", "LoadReport", "load"]
