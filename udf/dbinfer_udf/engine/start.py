"""To come."""

from __future__ import annotations
