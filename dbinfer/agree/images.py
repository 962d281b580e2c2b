"""Images to compare on: from a query through a server-side cursor, or made where nobody names any."""

from __future__ import annotations

from itertools import islice
from typing import Any

import cv2
import numpy as np
import psycopg2
from numpy.typing import NDArray
from psycopg2.extensions import connection as Connection

from dbinfer.connection import sentence, session
from dbinfer.errors import DataError
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image import Decoder, target_of
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.preprocess import Resizer

PULL_ROWS = 32
# Cells along a side of the pictures that are made: from large shapes to fine texture
CELLS = (2, 5, 12, 30)
Row = tuple[bytes, Any]


def query_rows(query: str, count: int, dsn: str | None, columns: int = 1) -> list[Row]:
    """Return up to `count` (image, label) rows of a query; the label is None where `columns` is 1; NULLs are left out.

    Raises:
        DataError: the server refuses the query, it gives no rows, or its columns are not of these kinds.
    """
    # The query is whatever the user typed; it cannot change anything by mistake
    with session(dsn, needs_dbinfer=False, readonly=True) as conn:
        try:
            rows = _pulled(conn, query, count, columns)
        except psycopg2.Error as err:
            told = sentence(err)
            raise type(told)(f"the query failed: {told.message}", query) from err
    if not rows:
        raise DataError("the query returns no images", query)
    return rows


def _pulled(conn: Connection, query: str, count: int, columns: int) -> list[Row]:
    with conn.cursor(
        "dbinfer_quantize"
    ) as cur:  # a name makes it a cursor of the server: not all rows come at once
        cur.itersize = PULL_ROWS
        cur.execute(query.strip().rstrip(";"))
        return [_row(row, columns) for row in islice(cur, count) if row[0] is not None]


def _row(row: tuple[Any, ...], columns: int) -> Row:
    if len(row) < columns:
        raise DataError(
            "the query of --check must return two columns: image and label",
            "Write: SELECT img, label FROM ...",
        )
    if not isinstance(row[0], memoryview | bytes):
        raise DataError(f"the query's first column is {type(row[0]).__name__}, but must be bytea (the image)")
    return bytes(row[0]), row[1] if columns > 1 else None


class Pixels:
    """Fits image files into a network's input, exactly as a deployed model does."""

    def __init__(self, manifest: Manifest) -> None:
        self.manifest = manifest
        self.decode = Decoder(manifest.color, target=target_of(manifest))
        self.resize = Resizer(manifest).resize

    def __call__(self, image: bytes) -> NDArray[np.uint8]:
        """Return uint8 (height, width, channels) of one image.

        Raises:
            DataError: it is no image.
        """
        pixels = np.empty((self.manifest.height, self.manifest.width, self.manifest.channels), np.uint8)
        try:
            self.resize(self.decode(image)[0], pixels)
        except ImageError as err:
            raise DataError(f"an image of the query cannot be used: {err.message}") from err
        return pixels


def made(count: int, manifest: Manifest) -> NDArray[np.uint8]:
    """Return pictures of shapes and textures, uint8 (count, height, width, channels); the same ones each time."""
    random = np.random.default_rng(0)
    return np.stack([_picture(random, manifest) for _ in range(count)])


def _picture(random: np.random.Generator, manifest: Manifest) -> NDArray[np.uint8]:
    size = (manifest.width, manifest.height)
    layers = [
        cv2.resize(random.normal(0, 1, (n, n, manifest.channels)), size, interpolation=cv2.INTER_CUBIC)
        for n in CELLS
    ]
    # as in photographs, the larger a shape the stronger its contrast
    waves = sum(layer.reshape(*size[::-1], -1) / (i + 1) for i, layer in enumerate(layers))
    levels = random.uniform(60, 190) + random.uniform(20, 60) * waves
    picture: NDArray[np.uint8] = np.clip(np.rint(levels), 0, 255).astype(np.uint8)
    return picture
