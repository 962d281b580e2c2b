"""INT8 with NNCF: calibrated on images from the database, checked against the original before it is written."""

from __future__ import annotations

from dbinfer.quantize.options import QuantizeOptions, QuantizeReport, Side
from dbinfer.quantize.quantization import quantize, quantize_images

__all__ = ["QuantizeOptions", "QuantizeReport", "Side", "quantize", "quantize_images"]
