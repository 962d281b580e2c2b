"""The small pictures that a page shows of some rows: images, masks and how well they cover the true ones, boxes."""

from __future__ import annotations

from base64 import b64encode
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from psycopg2 import sql
from psycopg2.extensions import connection as Connection

from dbinfer.database.sql import read
from dbinfer.images.stores import ImageColumn
from dbinfer.report.figures import Count
from dbinfer.report.tables import Key, Row, Source, Version, of
from dbinfer_udf.errors import UdfError
from dbinfer_udf.image.decode import Decoder, Target
from dbinfer_udf.image.draw import draw_boxes

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
    with conn.cursor() as cur:
        column = ImageColumn.of(cur, source.img_type)
    # A name makes it a cursor of the server, so that not all files come at once
    with conn.cursor("dbinfer_report") as cur:
        cur.itersize = READ_AHEAD
        cur.execute(_statement(source, column, keys, masks_of, other))
        for key, image, *masks in cur:
            files = (None if mask is None else bytes(mask) for mask in masks)
            yield Picture(tuple(key), column.file_or_none(image, MAX_IMAGE_BYTES), *files)


def _statement(
    source: Source, column: ImageColumn, keys: Sequence[Key], masks_of: Version | None, other: Version | None
) -> sql.Composed:
    truth = sql.Identifier("i", source.truth) if source.truth and masks_of else sql.SQL("NULL")
    versions = {"p": masks_of, "o": other}
    masks = (sql.Identifier(alias, "mask") if one else sql.SQL("NULL") for alias, one in versions.items())
    return sql.SQL(read("client/report_images.sql")).format(
        key=source.key("a"),
        img=column.image(sql.Identifier("i", source.img), "null"),
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
    """Return a picture as a data URI; see `compressed`."""
    data, kind = compressed(pixels)
    height, width = pixels.shape[:2]
    return Thumbnail(f"data:{kind};base64,{b64encode(data).decode()}", width, height)


def compressed(pixels: np.ndarray) -> tuple[bytes, str]:
    """Return a picture as a file and its type: small ones without loss, and in one channel where that is enough."""
    height, width = pixels.shape[:2]
    if pixels.ndim == 3 and not (pixels != pixels[:, :, :1]).any():
        pixels = pixels[:, :, 0]
    small = max(height, width) <= SMALL
    suffix, kind = (".png", "image/png") if small else (".jpg", "image/jpeg")
    data = cv2.imencode(suffix, pixels, [] if small else [cv2.IMWRITE_JPEG_QUALITY, QUALITY])[1]
    return data.tobytes(), kind


SET = 255
OPACITY = 0.6
# BGR, colours of Okabe and Ito that people tell apart who do not see red or green; the legend in page.css is the same
HIT, EXTRA, MISSED = (115, 158, 0), (0, 94, 213), (167, 121, 204)
PALETTE = (EXTRA, MISSED, HIT, (66, 228, 240), (0, 159, 230), (178, 114, 0), (233, 180, 86), (160, 160, 160))


@dataclass(frozen=True)
class Mask:
    """One mask and what it says.

    Attributes:
        covered: share of the pixels that are set; classes: the class numbers in it (255: a mask of one class).
        iou, dice: against the true mask, the mean over the classes of both; None without one.
        overlay: the image with the mask on it; problem: why there is none, or what is odd.
        agreement: IoU with the mask of the other version; before: that mask's dice. None without one.
    """

    key: Key
    overlay: Thumbnail
    covered: float | None = None
    classes: tuple[int, ...] = ()
    iou: float | None = None
    dice: float | None = None
    problem: str = ""
    agreement: float | None = None
    before: float | None = None


def evaluate(picture: Picture) -> Mask:
    """Return the figures of one mask, and the image with it."""
    try:
        found = decode(picture.mask, "GRAY", None)
        truth = None if picture.truth is None else decode(picture.truth, "GRAY", None)
        other = None if picture.other is None else decode(picture.other, "GRAY", None)
    except (UdfError, cv2.error) as err:
        return Mask(
            picture.key, Thumbnail(problem=str(err).splitlines()[0]), problem=str(err).splitlines()[0]
        )
    problem = ""
    if truth is not None:
        if truth.shape != found.shape:
            size = f"{truth.shape[1]} x {truth.shape[0]}"
            problem = f"the true mask has {size} pixels and was scaled to the image's"
            truth = _scaled(truth, found.shape)
        if set(np.unique(found)) <= {0, SET}:
            # True masks of one class are also written as 0 and 1, or lost a little in a JPEG
            truth = np.where(truth > truth.max() / 2, SET, 0).astype(np.uint8)
    iou, dice = overlap(found, truth) if truth is not None else (None, None)
    classes = tuple(int(value) for value in np.unique(found) if value)
    overlay = _overlay(picture.image, found, truth)
    agreement = before = None
    if other is not None and other.shape == found.shape:
        agreement = overlap(found, other)[0]
        before = overlap(other, truth)[1] if truth is not None else None
    covered = float((found > 0).mean())
    return Mask(
        key=picture.key,
        overlay=overlay,
        covered=covered,
        classes=classes,
        iou=iou,
        dice=dice,
        problem=problem,
        agreement=agreement,
        before=before,
    )


def overlap(found: np.ndarray, truth: np.ndarray) -> tuple[float, float]:
    """Return IoU and dice, each the mean over the classes (but 0) that either mask has; 1 where neither has any."""
    ious, dices = [], []
    for value in (set(np.unique(found)) | set(np.unique(truth))) - {0}:
        a, b = found == value, truth == value
        both, total = int((a & b).sum()), int(a.sum() + b.sum())
        ious.append(both / (total - both))
        dices.append(2 * both / total)
    return (float(np.mean(ious)), float(np.mean(dices))) if ious else (1.0, 1.0)


def worst_first(masks: Sequence[Mask]) -> list[Mask]:
    """Return masks with the lowest dice first; without true masks those that set most pixels first."""
    return sorted(
        masks, key=lambda mask: (mask.dice is None, mask.dice or 0.0, -(mask.covered or 0.0), mask.key)
    )


def _overlay(image: bytes | None, found: np.ndarray, truth: np.ndarray | None) -> Thumbnail:
    try:
        base = shrunk(decode(image, "BGR", MASK_SIDE), MASK_SIDE)
    except (UdfError, cv2.error) as err:
        return Thumbnail(problem=str(err).splitlines()[0])
    if max(base.shape[:2]) < MASK_SIDE // 2:
        base = cv2.resize(base, None, fx=4, fy=4, interpolation=cv2.INTER_NEAREST)
    colours = base.copy()
    small = _scaled(found, base.shape)
    if truth is None:
        for value in set(np.unique(small)) - {0}:
            colours[small == value] = PALETTE[int(value) % len(PALETTE)]
    else:
        true = _scaled(truth, base.shape)
        colours[(small > 0) & (small == true)] = HIT
        colours[(small > 0) & (small != true)] = EXTRA
        colours[(true > 0) & (small == 0)] = MISSED
    return encode(np.asarray(cv2.addWeighted(colours, OPACITY, base, 1 - OPACITY, 0)))


def _scaled(mask: np.ndarray, shape: Sequence[int]) -> np.ndarray:
    # Between class 2 and class 4 there is no class 3
    return np.asarray(cv2.resize(mask, (shape[1], shape[0]), interpolation=cv2.INTER_NEAREST))


SHOWN = 24
FIELDS = ("x", "y", "width", "height")


class Boxed(NamedTuple):
    """An image with its boxes, and how many there are."""

    key: Key
    overlay: Thumbnail
    objects: int


@dataclass(frozen=True)
class BoxSection:
    """Objects by class, the frequent ones first, how many images have none, and images with many."""

    counts: list[Count]
    without: int
    shown: list[Boxed]


def box_section(sample: Sequence[Row]) -> BoxSection:
    """Return the figures of the objects in a sample; its pictures come later."""
    found = [row.result[0] for row in sample if row.result[0] is not None]
    names = Counter(name(one) for objects in found for one in objects)
    counts = [Count(label, number, None) for label, number in names.most_common()]
    return BoxSection(counts, sum(not objects for objects in found), [])


def name(one: dict[str, Any]) -> str:
    """Return the label of an object, or its class where it has none."""
    return str(one["label"] if one["label"] is not None else one["class"])


def most_objects(sample: Sequence[Row]) -> dict[Key, list[dict[str, Any]]]:
    """Return the objects of the images to show: those with most."""
    there = [row for row in sample if row.found and row.result[0]]
    return {
        row.key: row.result[0]
        for row in sorted(there, key=lambda row: (-len(row.result[0]), row.key))[:SHOWN]
    }


def boxed(picture: Picture, objects: list[dict[str, Any]]) -> Boxed:
    """Return the image with its boxes, small."""
    try:
        # every pixel: boxes are in pixels of the whole image
        whole = decode(picture.image, "BGR", None)
    except (UdfError, cv2.error) as err:
        return Boxed(picture.key, Thumbnail(problem=str(err).splitlines()[0]), len(objects))
    small = np.ascontiguousarray(shrunk(whole, MASK_SIDE * 2))
    scale = small.shape[1] / whole.shape[1]
    draw_boxes(
        small, [{**one, **{field: _scaled_box(one[field], scale) for field in FIELDS}} for one in objects]
    )
    return Boxed(picture.key, encode(small), len(objects))


def _scaled_box(value: Any, scale: float) -> float | None:
    # JSON has no NaN: the server writes it as a text
    return None if value is None else float(value) * scale
