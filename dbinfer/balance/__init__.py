"""Whether the work is spread: tables over segments, scoring over them, and what scores at once over a host's cores."""

from dbinfer.balance.crowding import crowded_hosts
from dbinfer.balance.motion import moving_images
from dbinfer.balance.skew import skewed_tables

__all__ = ["crowded_hosts", "moving_images", "skewed_tables"]
