"""Trained models become OpenVINO IR that carries its manifest and equals its source."""

from __future__ import annotations

from dbinfer.convert._options import ConvertOptions
from dbinfer.convert._pipeline import convert
from dbinfer.convert._report import Check, ConvertReport, Port
from dbinfer.convert.formats import FORMATS

__all__ = ["FORMATS", "Check", "ConvertOptions", "ConvertReport", "Port", "convert"]
