"""`make demo`: from a trained model to SQL, on real images, in a few minutes; run again it only repeats the scoring."""

from __future__ import annotations

from dbinfer.demo.run import run

__all__ = ["run"]
