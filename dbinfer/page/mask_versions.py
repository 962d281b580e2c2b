"""Two versions of a segmentation: how far their masks agree, and which one comes closer to the true masks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dbinfer.page.masks import Mask
from dbinfer.page.sections import SHOWN, Fact, Tile, VersionSection
from dbinfer.page.words import short

# A difference in dice that people see
MARGIN = 0.01


def agreement(masks: Sequence[Mask]) -> float | None:
    """Return the mean IoU of the masks of both versions; None where no image has two."""
    both = [mask.agreement for mask in masks if mask.agreement is not None]
    return float(np.mean(both)) if both else None


def compare_masks(masks: Sequence[Mask], newer: str, older: str) -> VersionSection | None:
    """Return what changed between two versions; None where no image has two masks."""
    both = [mask for mask in masks if mask.agreement is not None]
    if not both:
        return None
    summary = [Fact(short(agreement(both) or 0.0), f"mean IoU of both on {len(both):,} images")]
    gains = [
        (mask.dice - mask.before, mask) for mask in both if mask.dice is not None and mask.before is not None
    ]
    if not gains:
        changed = sorted(both, key=lambda mask: (mask.agreement or 0.0, mask.key))
        sentence = "There are no true masks, so neither is known to be better."
        return VersionSection(newer, older, sentence, summary, [_list("Least alike", changed)])
    won = [mask for gain, mask in sorted(gains, key=lambda one: -one[0]) if gain > MARGIN]
    lost = [mask for gain, mask in sorted(gains, key=lambda one: one[0]) if gain < -MARGIN]
    summary += [
        Fact(f"{len(won):,}", f"won: dice better by more than {MARGIN}"),
        Fact(f"{len(lost):,}", f"lost: dice worse by more than {MARGIN}"),
        Fact(short(float(np.mean([mask.dice for _, mask in gains]))), f"mean dice of {newer}"),
        Fact(short(float(np.mean([mask.before for _, mask in gains]))), f"mean dice of {older}"),
    ]
    sentence = (
        f"Of {len(gains):,} masks {len(won):,} became better, {len(lost):,} worse, the others hardly changed."
    )
    return VersionSection(newer, older, sentence, summary, [_list("Won", won), _list("Lost", lost)])


def _list(title: str, masks: Sequence[Mask]) -> tuple[str, list[Tile], int]:
    tiles = []
    for mask in masks[:SHOWN]:
        alike = f"IoU of both {short(mask.agreement or 0.0)}"
        if mask.dice is None or mask.before is None:
            tiles.append(Tile(mask.key, alike))
            continue
        state = "right" if mask.dice > mask.before else "wrong"
        tiles.append(Tile(mask.key, f"dice {short(mask.before)} → {short(mask.dice)}", (alike,), state))
    return title, tiles, len(masks) - len(tiles)
