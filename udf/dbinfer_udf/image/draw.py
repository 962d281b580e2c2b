"""Draws what a model found on the image as shown, and returns a PNG: boxes and lines of text with scores, or a mask."""

from __future__ import annotations

import colorsys
import json
import struct
import unicodedata
import zlib
from typing import Any, Callable, Dict, Iterator, List, Optional, Sequence, Tuple

import cv2
import numpy as np

from ..errors import UsageError
from ..manifest import MOST_DETECTIONS
from .crop import pixels_of
from .decode import Decoder
from .file import DEFAULT_LIMITS, Limits, too_large

MOST_LETTERS = 60
MOST_JSON = 1000 * MOST_DETECTIONS  # characters: labels of ordinary length, and numbers with all their digits
STRIPE = 1 << 20  # bytes of the picture between two looks at the server's flags
# hues that differ by 30 degrees or more: so many can lie side by side
SHADES = 8
# boxes are neighbours within this part of the picture's shorter side, and within so many in the list
NEAR, NEXT = 0.05, 256
# seconds, measured: of a box, of a letter of height one, of a pixel of its lines
_PER_BOX, _PER_LETTER, _PER_PIXEL = 50e-6, 6e-6, 3e-9
# of a mask's colour in a pixel
COVER = 0.5
# keypoints with a lower score are not drawn
SURE = 0.5
_FONT = cv2.FONT_HERSHEY_SIMPLEX
_BLACK = (0, 0, 0)

Colour = Tuple[int, int, int]


def never_cancelled() -> None:
    """Look at no flags: nobody cancels."""


def drawn(
    img: bytes,
    found: Optional[str],
    mask: Optional[bytes],
    limits: Limits,
    look: Callable[[], None] = never_cancelled,
) -> bytes:
    """Return the image under the mask and with the boxes on it, the best on top.

    Args:
        found: JSON of a list of lists: dbinfer.detection[], text_line[] or instance[] each; None for none.
        mask: an image file of one channel, as large as the image, as dbinfer.segment makes it; None for none.
        look: raises where the statement is to end; called between any two steps of a few milliseconds, and on both
            sides of decoding.

    Raises:
        ImageError: an image cannot be decoded, or is above the limits, alone or with what is drawn on it.
        UsageError: there are too many boxes, one has other than four corners, or the mask has another size.
    """
    boxes = _boxes(found)
    colours, grays = Decoder("BGR", limits), Decoder("GRAY", limits)
    size = colours.check(img)[0].size
    check_boxes(boxes, size, limits)
    if mask is not None:
        _check_mask(grays, mask, size, limits)
    look()
    # a turn may leave a view, which OpenCV does not draw on
    picture = np.ascontiguousarray(colours(img)[0])
    if mask is not None:
        look()
        _cover(picture, grays(mask)[0], [colour(value) for value in range(256)], look)
    draw_boxes(picture, boxes, look, limits)
    pieces = list(_png(picture, look))
    # before the pieces become one, which doubles them: so drawing never takes more than decoding
    del picture
    return b"".join(pieces)


def drawn_apart(limits: Limits, img: bytes, found: bytes, mask: bytes, masked: bool) -> Iterator[bytes]:
    """Yield what `drawn` returns; see apart."""
    yield drawn(img, found.decode(), mask if masked else None, limits)


def draw_boxes(
    picture: np.ndarray,
    boxes: List[Dict[str, Any]],
    look: Callable[[], None] = never_cancelled,
    limits: Limits = DEFAULT_LIMITS,
) -> None:
    """Draw what was found (by the names of its fields) on pixels BGR, which lie without gaps in memory."""
    size = picture.shape[1::-1]
    thick, scale = _pens(size)
    outlined = [(one, corners) for one in boxes if (corners := _corners(one, size)) is not None]
    shades = _shades(outlined, min(size) * NEAR, look)
    for (one, corners), shade in reversed(list(zip(outlined, shades))):
        look()
        if one.get("mask") is not None:
            _cover_box(picture, one, colour(shade), limits, look)
        cv2.polylines(picture, [corners], True, colour(shade), thick)
        _write(picture, caption(one), corners[0].tolist(), colour(shade), scale)
        _dots(picture, one.get("points"), colour(shade), thick)


def _dots(picture: np.ndarray, points: Any, shade: Colour, thick: int) -> None:
    """Draw the keypoints whose score is high enough."""
    numbers = [float("nan" if number is None else number) for number in np.ravel(points or []).tolist()]
    if len(numbers) % 3:
        raise UsageError(
            "the points of an instance are %d numbers, but a point has 3: x, y and score" % len(numbers),
            hint="Draw what dbinfer.instances returned: ARRAY[[x, y, score], ...].",
        )
    for x, y, score in zip(numbers[::3], numbers[1::3], numbers[2::3]):
        if not (score >= SURE and np.isfinite([x, y]).all()):
            continue
        place = [round(min(max(at, -9), side + 9)) for at, side in zip((x, y), picture.shape[1::-1])]
        cv2.circle(picture, place, 2 * thick + 1, _BLACK, cv2.FILLED)
        cv2.circle(picture, place, 2 * thick, shade, cv2.FILLED)


def _pens(size: Tuple[int, ...]) -> Tuple[int, float]:
    """Return how thick lines and how large letters are: pictures of any size are looked at in the same window."""
    least = min(size)
    return max(1, round(least / 250)), max(0.35, least / 900)


def check_boxes(boxes: List[Dict[str, Any]], size: Tuple[int, int], limits: Limits) -> None:
    """Raise where the boxes would take longer than decoding may; the size is the picture's (width, height)."""
    thick, scale = _pens(size)
    letters = sum(len(caption(one)) for one in boxes)
    # as if each went around the whole picture
    lines = len(boxes) * 2 * sum(size) * thick
    seconds = len(boxes) * _PER_BOX + letters * scale * scale * _PER_LETTER + lines * _PER_PIXEL
    if seconds > limits.max_seconds:
        err = too_large(
            "about %.0f" % seconds,
            limits.max_seconds,
            "seconds to draw %d boxes" % len(boxes),
            "max_image_seconds",
        )
        err.hint = "Draw the best, detections[1:100], or raise the limit:" + err.hint.rpartition(":")[2]
        raise err


def _boxes(found: Optional[str]) -> List[Dict[str, Any]]:
    if len(found or "") > MOST_JSON:
        raise _too_many("%d characters of JSON" % len(found or ""), MOST_JSON)
    boxes = [one for kind in json.loads(found or "[]") for one in kind or () if one is not None]
    if len(boxes) > MOST_DETECTIONS:
        raise _too_many("%d boxes" % len(boxes), MOST_DETECTIONS)
    return boxes


def _too_many(what: str, most: int) -> UsageError:
    problem = "there are %s to draw, but %d are the most" % (what, most)
    return UsageError(problem, hint="Draw the best: detections[1:100].")


def _check_mask(
    grays: Decoder, mask: bytes, size: Tuple[int, int], limits: Limits, what: str = "the image"
) -> None:
    """Raise where the mask does not fit the picture, or decoding it beside the picture takes too much memory."""
    header = grays.check(mask)[0]
    if header.size != size:
        raise UsageError(
            "the mask has %d x %d pixels, but %s has %d x %d" % (*header.size, what, *size),
            hint="Draw the mask on the image that it was made of.",
        )
    pixels = size[0] * size[1]
    memory = 3 * pixels + pixels + max(pixels, header.buffers)
    if memory > limits.max_memory:
        raise too_large(memory, limits.max_memory, "bytes of memory for it and its mask", "max_image_memory")


def _stripes(picture: np.ndarray, look: Callable[[], None]) -> Iterator[slice]:
    """Yield the rows of the picture some at a time, with a look before each."""
    rows = max(1, STRIPE // picture[0].nbytes)
    for top in range(0, len(picture), rows):
        look()
        yield slice(top, top + rows)


def _cover_box(
    picture: np.ndarray, one: Dict[str, Any], shade: Colour, limits: Limits, look: Callable[[], None]
) -> None:
    """Put one colour on what the mask of an instance holds."""
    if not one["mask"].startswith("\\x"):
        raise UsageError("the masks come as escaped text", hint="SET bytea_output = 'hex', and draw again.")
    mask, grays = bytes.fromhex(one["mask"][2:]), Decoder("GRAY", limits)
    left, top = one["x"], one["y"]
    bounds = (left, top, left + one["width"], top + one["height"])
    x1, y1, x2, y2 = pixels_of(bounds, picture.shape[1::-1])
    _check_mask(grays, mask, (x2 - x1, y2 - y1), limits, "its box")
    _cover(picture[y1:y2, x1:x2], grays(mask)[0], [shade] * 256, look)


def _cover(
    picture: np.ndarray, values: np.ndarray, colours: Sequence[Colour], look: Callable[[], None]
) -> None:
    """Put a colour on the picture for each value of the mask but 0."""
    table = np.array(colours, np.uint8)
    for rows in _stripes(picture, look):
        part, own = picture[rows], values[rows]
        coloured = cv2.addWeighted(part, 1 - COVER, table[own], COVER, 0)
        np.copyto(part, coloured, where=own[:, :, None] > 0)


def colour(number: int) -> Colour:
    """Return the colour of a class, BGR: neighbours are far apart on the circle of hues."""
    # by the golden ratio, and never dark: labels on it are black
    red, green, blue = colorsys.hsv_to_rgb(number * 0.61803399 % 1, 0.75, 1.0)
    return round(blue * 255), round(green * 255), round(red * 255)


def _corners(one: Dict[str, Any], size: Tuple[int, ...]) -> Optional[np.ndarray]:
    """Return the pixels at the corners, int32 (4, 2), upper left one first; None where a number is missing."""
    if "box" in one:
        given = np.ravel(one["box"] or [None] * 8).tolist()
    else:
        given = [one[key] for key in ("x", "y", "width", "height")]
    numbers = [float("nan" if number is None else number) for number in given]
    if not np.isfinite(numbers).all():
        return None
    if "box" not in one:
        x, y, across, down = numbers
        numbers = [x, y, x + across, y, x + across, y + down, x, y + down]
    if len(numbers) != 8:
        raise UsageError(
            "the box of a line has %d numbers, but four corners have 8" % len(numbers),
            hint="Draw what dbinfer.read or dbinfer.find_text returned: ARRAY[x1, y1, ..., x4, y4].",
        )
    # whatever the numbers are, OpenCV gets small ones
    points = np.clip(np.reshape(numbers, (4, 2)), -9, np.add(size, 9)).round().astype(np.int32)
    # the last pixel within, not the first beyond
    corners: np.ndarray = points - np.array([(0, 0), (1, 0), (1, 1), (0, 1)], np.int32)
    return corners


def _shades(
    outlined: List[Tuple[Dict[str, Any], np.ndarray]], reach: float, look: Callable[[], None]
) -> List[int]:
    """Return the number of each box's colour: its class's, or the next that is rarest among its neighbours."""
    lows, highs = (
        np.array([end(corners, 0) for _, corners in outlined]).reshape(-1, 2) for end in (np.min, np.max)
    )
    shades = np.zeros(len(outlined), int)
    for at, (one, _) in enumerate(outlined):
        look()
        before = slice(max(0, at - NEXT), at)
        near = ((lows[before] <= highs[at] + reach) & (highs[before] >= lows[at] - reach)).all(1)
        used = np.bincount(shades[before][near], minlength=SHADES)
        first = int(one.get("class") or 0) % SHADES
        shades[at] = (first + int(np.roll(used, -first).argmin())) % SHADES
    return shades.tolist()


def _write(picture: np.ndarray, text: str, corner: Sequence[int], shade: Colour, scale: float) -> None:
    """Write a text on its own ground above a corner, or below where there is no room."""
    stroke = max(1, round(scale * 1.5))
    (across, up), down = cv2.getTextSize(text, _FONT, scale, stroke)
    x = max(0, min(corner[0], picture.shape[1] - across))
    y = corner[1] - down if corner[1] >= up + 2 * down else corner[1] + up + down
    cv2.rectangle(picture, (x, y - up - down // 2), (x + across, y + down), shade, cv2.FILLED)
    cv2.putText(picture, text, (x, y), _FONT, scale, _BLACK, stroke, cv2.LINE_AA)


def caption(one: Dict[str, Any]) -> str:
    """Return label or text, and score, in the letters that OpenCV's font has: ASCII."""
    if "text" in one:
        name = one["text"] or ""
    else:
        name = one["label"] if one["label"] is not None else str(one["class"])
    # an accented letter is the letter and its accent; what has no such form is a question mark
    plain = unicodedata.normalize("NFKD", name[:MOST_LETTERS])
    letters = "".join(letter for letter in plain if not unicodedata.combining(letter))
    text = letters.encode("ascii", "replace").decode()
    text = "".join(letter if letter.isprintable() else "?" for letter in text)
    return text if one["score"] is None else ("%s %.2f" % (text, float(one["score"]))).lstrip()


def _png(picture: np.ndarray, look: Callable[[], None]) -> Iterator[bytes]:
    """Yield the parts of a PNG file.

    Not by OpenCV: it takes three times the picture's memory for one of noise, twice to four times the time (0.1 s a
    megapixel), and looks at no flag.
    """
    height, width = picture.shape[:2]
    yield b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0))
    # runs only, which is what differences of neighbours leave: a photograph gets no smaller with more
    packer = zlib.compressobj(1, zlib.DEFLATED, zlib.MAX_WBITS, 9, zlib.Z_RLE)
    for rows in _stripes(picture, look):
        yield _chunk(b"IDAT", packer.compress(_differences(picture[rows]).data))
    yield _chunk(b"IDAT", packer.flush()) + _chunk(b"IEND", b"")


def _differences(part: np.ndarray) -> np.ndarray:
    """Return rows as PNG's filter 1 writes them: its number, then each pixel less the one to the left."""
    pixels = cv2.cvtColor(part, cv2.COLOR_BGR2RGB).reshape(len(part), -1)
    result = np.empty((len(part), 1 + pixels.shape[1]), np.uint8)
    result[:, 0], result[:, 1:4] = 1, pixels[:, :3]
    np.subtract(pixels[:, 3:], pixels[:, :-3], out=result[:, 4:])
    return result


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))
