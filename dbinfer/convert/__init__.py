"""Trained models become OpenVINO IR that carries its manifest and equals its source."""

from __future__ import annotations

from dbinfer.convert._options import Check, ConvertOptions, ConvertReport
from dbinfer.convert.conversion import convert

__all__ = ["Check", "ConvertOptions", "ConvertReport", "convert"]
