"""What scoring costs: terms of one row, coefficients that were measured for them, and what a host makes of both."""

from __future__ import annotations

from dbinfer.cost.coefficients import Coefficients, shipped
from dbinfer.cost.facts import Network, Picture
from dbinfer.cost.hosts import Load, statement_seconds
from dbinfer.cost.row import row_seconds

__all__ = ["Coefficients", "Load", "Network", "Picture", "row_seconds", "shipped", "statement_seconds"]
