"""Whether the work is spread: tables over segments, and what scores at once over the cores of a host."""

from dbinfer.balance.crowding import crowded_hosts
from dbinfer.balance.skew import skewed_tables

__all__ = ["crowded_hosts", "skewed_tables"]
