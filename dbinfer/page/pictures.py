"""Image files of some rows, read one after the other, and the small pictures that a page shows of them."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import cv2
import numpy as np
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.page.rows import Key, Version, of
from dbinfer.page.source import Source
from dbinfer.sqlfiles import read
from dbinfer_udf.errors import UdfError
from dbinfer_udf.image import Decoder, Target

# A larger file would be read for a thumbnail of 3 kB
MAX_IMAGE_BYTES = 32 << 20
# So many files are held at once
READ_AHEAD = 4
SIDE, MASK_SIDE = 96, 192
# Below this side a picture stays as it is, and the page shows its pixels enlarged
SMALL = 48
QUALITY = 82


class Picture(NamedTuple):
    """An image file with what was asked beside it: the true mask, the mask that was found, that of another version."""

    key: Key
    image: bytes | None
    truth: bytes | None
    mask: bytes | None
    other: bytes | None = None


class Thumbnail(NamedTuple):
    """A picture as a data URI, its size in pixels, and why there is none."""

    uri: str = ""
    width: int = SMALL
    height: int = SMALL
    problem: str = ""

    @property
    def small(self) -> bool:
        """Return whether single pixels should be seen."""
        return max(self.width, self.height) <= SMALL


def pictures(
    conn: Connection,
    source: Source,
    keys: Sequence[Key],
    masks_of: Version | None = None,
    other: Version | None = None,
) -> Iterator[Picture]:
    """Yield the image files of some rows, with their true masks and the masks that one or two versions found."""
    if not keys:
        return
    # A name makes it a cursor of the server, so that not all files come at once
    with conn.cursor("dbinfer_report") as cur:
        cur.itersize = READ_AHEAD
        cur.execute(_statement(source, keys, masks_of, other))
        for key, *files in cur:
            yield Picture(tuple(key), *(None if file is None else bytes(file) for file in files))


def _statement(
    source: Source, keys: Sequence[Key], masks_of: Version | None, other: Version | None
) -> sql.Composed:
    truth = sql.Identifier("i", source.truth) if source.truth and masks_of else sql.SQL("NULL")
    versions = {"p": masks_of, "o": other}
    masks = (sql.Identifier(alias, "mask") if one else sql.SQL("NULL") for alias, one in versions.items())
    return sql.SQL(read("client/report_images.sql")).format(
        key=source.key("a"),
        img=sql.Identifier(source.img),
        limit=sql.Literal(MAX_IMAGE_BYTES),
        more=sql.SQL(", ").join([truth, *masks]),
        asked=source.arrays(list(zip(*keys, strict=True))),
        names=sql.SQL(", ").join(map(sql.Identifier, source.keys)),
        table=source.table.identifier,
        same=source.same("i", "a"),
        joined=sql.SQL(" ").join(_join(source, alias, one) for alias, one in versions.items() if one),
    )


def _join(source: Source, alias: str, version: Version) -> sql.Composed:
    # LEFT: the other version may not have scored that row
    names = source.predictions.identifier, sql.Identifier(alias), source.same(alias, "a"), of(version, alias)
    return sql.SQL("LEFT JOIN {} {} ON {} AND {}").format(*names)


def thumbnail(data: bytes | None) -> Thumbnail:
    """Return a small picture of an image file, or why there is none."""
    try:
        return encode(shrunk(decode(data), SIDE))
    except (UdfError, cv2.error) as err:
        return Thumbnail(problem=str(err).splitlines()[0])


def decode(data: bytes | None, color: str = "BGR", side: int | None = SIDE) -> np.ndarray:
    """Return the pixels of an image file within the bounds that the server has, too.

    Args:
        color: BGR or GRAY.
        side: JPEGs are decoded at a fraction that still covers it; None for every pixel.

    Raises:
        UdfError: it is no image, damaged or too large.
    """
    if data is None:
        raise UdfError("there is no image, or one that is larger than a page can use")
    target = Target(side, side, both=False) if side else None
    return Decoder(color, target=target)(data)[0]


def shrunk(pixels: np.ndarray, side: int) -> np.ndarray:
    """Return the picture with no side longer than `side`."""
    height, width = pixels.shape[:2]
    factor = side / max(height, width)
    if factor >= 1:
        return pixels
    size = max(1, round(width * factor)), max(1, round(height * factor))
    return np.asarray(cv2.resize(pixels, size, interpolation=cv2.INTER_AREA))


def encode(pixels: np.ndarray) -> Thumbnail:
    """Return a picture as a data URI: small ones as PNG, without loss, and in one channel where that is enough."""
    height, width = pixels.shape[:2]
    if pixels.ndim == 3 and not (pixels != pixels[:, :, :1]).any():
        pixels = pixels[:, :, 0]
    small = max(height, width) <= SMALL
    suffix, kind = (".png", "png") if small else (".jpg", "jpeg")
    data = cv2.imencode(suffix, pixels, [] if small else [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
    return Thumbnail(f"data:image/{kind};base64,{b64encode(data.tobytes()).decode()}", width, height)
