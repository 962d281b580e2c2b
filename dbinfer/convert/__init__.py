"""Trained models become OpenVINO IR that carries its manifest and equals its source."""

from __future__ import annotations

from dbinfer.convert.conversion import convert
from dbinfer.convert.options import Check, ConvertOptions, ConvertReport

__all__ = ["Check", "ConvertOptions", "ConvertReport", "convert"]
