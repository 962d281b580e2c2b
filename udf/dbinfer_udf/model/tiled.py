"""Scores an image that is larger than the network, tile by tile, wherever the network runs."""

from __future__ import annotations

from itertools import islice
from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

from ..errors import CancelledError, ImageError
from ..host import interrupts
from ..image.apart import no_result
from ..image.file import image_limits
from ..image.tiles import Cut, grid_of, tiles
from ..manifest import STEP, Manifest
from ..tasks import FUNCTIONS, imported


def cut_of(manifest: Manifest) -> Cut:
    """Return how images are cut for a model: a tile fills its input.

    In steps of 32 pixels, because a network that halves its sides five times gives the same pixels only there.
    """
    across, down = (int(manifest.tile_overlap * side) for side in (manifest.width, manifest.height))
    step = STEP if min(manifest.width - across, manifest.height - down) >= STEP else 1
    return Cut(manifest.width, manifest.height, across, down, step, manifest.pad_value)


def scored(
    manifest: Manifest,
    settings: Dict[str, str],
    function: str,
    img: bytes,
    found_in: Callable[[bytes, Callable[[], None]], bytes],
    elsewhere: bool = False,
) -> Any:
    """Return what a function finds in an image.

    Args:
        found_in: runs the network on a tile; not called for one that equals the one before. Calls the second argument
            while the network runs elsewhere, if it does: that reads the next tile.
        elsewhere: decode the image in a process of its own.
    """
    cut = cut_of(manifest)
    grid = grid_of(img, cut, image_limits(settings))
    whole = imported(FUNCTIONS[function].tiled)(grid, manifest)
    places = len(grid.columns) * len(grid.rows)
    # never more than there are places: a process that was taken over may send any number
    parts = islice(tiles(settings, img, cut, elsewhere), places)
    read: List[bytes] = [*islice(parts, 1)]
    done: List[Tuple[int, bytes]] = []
    before, found = b"", b""

    def meanwhile() -> None:
        if done:
            whole.add(*done.pop())
        if not read:
            read.extend(islice(parts, 1))

    for number in range(places):
        if interrupts.cancelled():
            raise CancelledError("the statement was cancelled while it scored the tiles of an image")
        if not read:
            raise no_result()
        tile = read.pop()
        if tile != before:  # blank glass, say: as a row that equals the one before, it costs no inference
            before, found = tile, found_in(tile, meanwhile)
        meanwhile()
        done.append((number, found))
    meanwhile()
    return whole.result()


def each(
    by_tiles: Callable[[str, bytes], Any],
    function: str,
    null: bool,
    wanted: Sequence[Tuple[int, Optional[bytes]]],
) -> List[Any]:
    """Return the result of each row, as Model.rows does."""
    found: List[Any] = []
    for number, img in wanted:
        try:
            found.append(None if img is None else by_tiles(function, img))
        except ImageError as err:
            if not null:
                raise err.of_row(number) from err
            found.append(None)
    return found
