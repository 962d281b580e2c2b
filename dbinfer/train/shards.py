"""Which rows each rank trains on; pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence

from dbinfer.errors import TrainError

GOLDEN = (
    2654435761  # 2^32 / golden ratio: consecutive multiples spread evenly over 0..2^32 (Knuth, vol. 3, 6.4)
)


def shard(rows: Sequence[int], rank: int, size: int) -> Sequence[int]:
    """Return the part of `rows` for one rank: in order, without gaps, the remainder over the first ranks.

    5000 rows over 10 ranks: rank 0 has 0..499, rank 9 has 4500..4999; 7 over 3: 3, 2 and 2 rows.
    """
    each, more = divmod(len(rows), size)
    first = rank * each + min(rank, more)
    return rows[first : first + each + (rank < more)]


def check_enough(count: int, ranks: int) -> None:
    """Raise TrainError where some rank would have no image."""
    if count < ranks:
        raise TrainError(
            f"{ranks} ranks are more than the {count} training images: some would have nothing to do.",
            f"Use at most {max(count, 1)} ranks, or more images.",
        )


def hold_out(count: int, fraction: float) -> tuple[Sequence[int], Sequence[int]]:
    """Return the rows to train on and those held out, the same in every run and on every rank.

    The held-out rows lie evenly spread, without a period that the order of the data could share.
    """
    limit = round(fraction * 2**32)
    held = [row for row in range(count) if (row + 1) * GOLDEN % 2**32 < limit]
    if not held:
        return range(count), []
    chosen = set(held)
    return [row for row in range(count) if row not in chosen], held
