"""Images for calibration: from a query through a server-side cursor, then through the model's own preprocessing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import Any

import numpy as np
import psycopg2

from dbinfer.connection import connect
from dbinfer.errors import DataError
from dbinfer_udf.errors import ImageError
from dbinfer_udf.image import Decoder, target_of
from dbinfer_udf.manifest import Manifest
from dbinfer_udf.preprocess import Resizer

PULL_ROWS = 32
Row = tuple[bytes, Any]


def query_rows(query: str, count: int, dsn: str | None, columns: int = 1) -> list[Row]:
    """Return up to `count` (image, label) rows of a query; the label is None where `columns` is 1; NULLs are left out.

    Raises:
        DataError: the server refuses the query, it gives no rows, or its columns are not of these kinds.
    """
    conn = connect(dsn)
    try:
        conn.set_session(readonly=True)
        with conn, conn.cursor("dbinfer_quantize") as cur:
            cur.itersize = PULL_ROWS
            cur.execute(query.strip().rstrip(";"))
            rows = [_row(row, columns) for row in islice(cur, count) if row[0] is not None]
    except psycopg2.Error as err:
        raise DataError(f"the query failed: {str(err).strip().splitlines()[0]}", query) from err
    finally:
        conn.close()
    if not rows:
        raise DataError("the query gives no images.", query)
    return rows


def _row(row: tuple[Any, ...], columns: int) -> Row:
    if len(row) < columns:
        raise DataError(
            "the query of --check needs two columns: image and label.", "SELECT img, label FROM ..."
        )
    if not isinstance(row[0], memoryview | bytes):
        raise DataError(
            f"the query's first column is {type(row[0]).__name__}, but must be bytea (the image)."
        )
    return bytes(row[0]), row[1] if columns > 1 else None


class Tensors:
    """Makes the tensor that the model's graph takes from an image file, exactly as deploy compiles it into the graph.

    Args:
        order: NHWC or NCHW.
    """

    def __init__(self, manifest: Manifest, order: str) -> None:
        self.decode = Decoder(manifest.color, target=target_of(manifest))
        self.resize = Resizer(manifest).resize
        self.shape = (manifest.height, manifest.width, manifest.channels)
        self.mean = np.asarray(manifest.mean or (0,), np.float32)
        self.scale = np.asarray(manifest.scale or (1,), np.float32)
        self.order = order

    def __call__(self, image: bytes) -> Any:
        """Return float32 of one image with the batch in front.

        Raises:
            DataError: it is no image.
        """
        pixels = np.empty(self.shape, np.uint8)
        try:
            self.resize(self.decode(image)[0], pixels)
        except ImageError as err:
            raise DataError(f"an image of the query cannot be used: {err.message}.") from err
        x = (pixels.astype(np.float32) - self.mean) / self.scale
        return np.ascontiguousarray(x[None] if self.order == "NHWC" else x.transpose(2, 0, 1)[None])


def tensors(make: Tensors, images: Sequence[bytes]) -> list[Any]:
    """Return the tensors of images."""
    return [make(image) for image in images]
