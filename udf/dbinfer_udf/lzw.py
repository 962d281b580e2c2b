"""Counts how often a GIF's codes empty the decoder's table, which costs OpenCV 12 microseconds each time.

200 kB of nothing but such codes held a backend for 6 seconds. Encoders write one for about 4,000 others.
"""

from __future__ import annotations

from typing import List, Tuple

import numpy as np

from .gif import first_frame, palette
from .image_limits import Limits, too_large
from .imagefile import Header

_SECONDS = 13e-6  # of one emptied table, measured
_SHARE = 10  # of the time allowed: a tenth goes to emptied tables; real files come nowhere near
_TABLE, _LARGEST = 1 << 12, 12  # entries, and bits of a code
_NEAR, _NEXT, _FAR = 16, 128, _TABLE  # codes looked at at once: few behind a table that was emptied just now


def check_tables(data: bytes, header: Header, limits: Limits) -> None:
    """Raise where the first frame empties the table too often; so few bytes that they cannot are not looked at."""
    at = first_frame(data, limits)
    start = at + 10 + palette(data[at + 9]) if 0 < at < len(data) - 9 else 0
    least = data[start] if 0 < start < len(data) else 0
    if not 2 <= least < _LARGEST:  # no frame that OpenCV would decode
        return
    if (len(data) - start) * 8 / (least + 1) * _SECONDS + header.seconds <= limits.max_seconds:
        return
    most = int(limits.max_seconds / _SHARE / _SECONDS)
    if _count(_codes(data, start + 1), least, header.width * header.height, most) >= most:
        raise too_large(f"more than {most}", most, "emptied tables of codes", "max_image_seconds")


def _codes(data: bytes, pos: int) -> np.ndarray:
    """Return the frame's codes without the lengths of their blocks, and three bytes more to look beyond the end."""
    blocks = []
    while pos < len(data) and data[pos]:
        blocks.append(data[pos + 1 : pos + 1 + data[pos]])
        pos += 1 + data[pos]
    return np.frombuffer(b"".join(blocks) + bytes(3), np.uint8)


def _count(codes: np.ndarray, least: int, pixels: int, most: int) -> int:
    """Return how many codes empty the table (or end the picture, after which OpenCV goes on), at most `most`.

    The width of a code depends on nothing but how many came since the table was emptied, so that many are looked at at
    once.
    """
    clear = 1 << least
    entries = np.minimum(clear + 1 + np.arange(_TABLE + _FAR), _TABLE - 1)
    widths = np.maximum(np.log2(entries).astype(np.int64) + 1, least + 1)
    offsets = np.concatenate((np.zeros(1, np.int64), np.cumsum(widths)))
    near, raw = widths[:_NEAR].tolist(), codes.tobytes()
    end, pos, since, found, written = 8 * (len(codes) - 3), 0, 0, 0, 0
    while found < most and written <= pixels and pos < end:
        if since == 0:
            pos, since, hit = _look_near(raw, near, pos, clear)
            found, written = found + hit, written + since
            since = 0 if hit else since
            continue
        stop = since + (_NEXT if since < _NEXT else _FAR)
        places, wide = pos + offsets[since:stop] - offsets[since], widths[since:stop]
        inside = int(np.searchsorted(places + wide, end, side="right"))
        if inside == 0:
            break
        values = _values(codes, places[:inside], wide[:inside])
        hits = np.flatnonzero((values == clear) | (values == clear + 1))
        last = int(hits[0]) if len(hits) else inside - 1
        pos = int(places[last] + wide[last])
        found, written = found + len(hits[:1]), written + last
        since = 0 if len(hits) else min(since + inside, _TABLE)
    return found


def _look_near(raw: bytes, widths: List[int], pos: int, clear: int) -> Tuple[int, int, bool]:
    """Look at the first codes behind an emptied table one by one; return (position, seen, found)."""
    for seen, wide in enumerate(widths):
        at = pos >> 3
        code = int.from_bytes(raw[at : at + 3], "little") >> (pos & 7) & ((1 << wide) - 1)
        pos += wide
        if code == clear or code == clear + 1:
            return pos, seen, True
    return pos, len(widths), False


def _values(codes: np.ndarray, places: np.ndarray, wide: np.ndarray) -> np.ndarray:
    """Return the codes at these bits."""
    first = places >> 3
    words = codes[first] | codes[first + 1].astype(np.int64) << 8 | codes[first + 2].astype(np.int64) << 16
    values: np.ndarray = words >> (places & 7) & ((1 << wide) - 1)
    return values
