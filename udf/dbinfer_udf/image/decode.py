"""Decodes image files into pixels: costs and limits first, nothing cut off, no larger than needed, the right way
up.

A GIF of 200 kB, of nothing but codes that empty the decoder's table, held a backend for 6 seconds. Encoders write one
for about 4,000 others.
"""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, List, NamedTuple, Optional, Sequence, Tuple

import cv2
import numpy as np

from ..errors import ImageError
from ..manifest import ANY_SIZE, Manifest
from . import heif
from .apart import apart_once, no_result
from .file import DEFAULT_LIMITS, FREE_MEMORY, Header, Limits, too_large, too_much_memory
from .header import HINT, first_frame, palette, read_header, still

_SECONDS = 13e-6  # of one emptied table, measured
_SHARE = 10  # emptied tables may take a tenth of the time allowed; real files come nowhere near
_TABLE, _LARGEST = 1 << 12, 12  # entries, and bits of a code
_NEAR, _NEXT, _FAR = 16, 128, _TABLE  # codes read at once: few after a table that was just emptied


def check_tables(data: bytes, header: Header, limits: Limits) -> None:
    """Raise if the first frame empties the table too often; files that are too short for that are not read."""
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
    """Return the frame's codes without the lengths of their blocks, and three more bytes to read beyond the end."""
    blocks = []
    while pos < len(data) and data[pos]:
        blocks.append(data[pos + 1 : pos + 1 + data[pos]])
        pos += 1 + data[pos]
    return np.frombuffer(b"".join(blocks) + bytes(3), np.uint8)


def _count(codes: np.ndarray, least: int, pixels: int, most: int) -> int:
    """Return how many codes empty the table (or end the picture, after which OpenCV goes on), at most `most`.

    The width of a code depends only on how many came since the table was emptied, so many can be read at once.
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
    """Read the first codes after an emptied table one by one; return (position, seen, found)."""
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


def check_cost(data: bytes, header: Header, limits: Limits, result: int) -> None:
    """Raise where the file was cut off, or decoding it costs more than the limits allow.

    Args:
        result: bytes of the decoded picture.
    """
    # taken apart at once, which is quicker than by name: every row comes here
    format_, width, height, _, _, _, complete, scans, buffers, seconds, _ = header
    _, max_pixels, max_memory, max_expansion, max_scans, _, _, max_seconds = limits
    if width * height > max_pixels:
        raise too_large(width * height, max_pixels, "pixels", "max_image_pixels")
    if not complete:
        raise _cut_off(header)
    if scans > max_scans:
        raise too_large(scans, max_scans, "scans", "max_image_scans")
    # OpenCV copies the picture at the end, when its buffers are freed
    memory = result + (buffers if buffers > result else result)
    # the two limits of Limits.memory_for
    if memory > max_memory or memory > FREE_MEMORY + len(data) * max_expansion:
        raise too_much_memory(memory, len(data), limits)
    if seconds > max_seconds:
        raise too_large(f"about {seconds:.0f}", max_seconds, "seconds to decode", "max_image_seconds")
    # last, because only this looks at the data
    if format_ == "GIF":
        check_tables(data, header, limits)


# What comes as shown: OpenCV turns TIFFs whatever its flags say, and we the others at once
_TURNED = ("TIFF", *heif.FORMATS)


def check_shape(shape: Sequence[int], header: Header, part: int) -> None:
    """Raise if the decoder found another size than the header says, because then the checks were of another picture.

    Args:
        part: 1, 2, 4 or 8: how much smaller the picture was decoded.
    """
    width, height = header.size if header.format in _TURNED else (header.width, header.height)
    if (shape[0], shape[1]) != (-(-height // part), -(-width // part)):
        raise ImageError(
            f"the {header.format} image is damaged: its header says {header.width} x {header.height} pixels, but the "
            f"decoder found {shape[1]} x {shape[0]}"
        )


def _cut_off(header: Header) -> ImageError:
    return ImageError(
        f"the {header.format} image is cut off: its data ends after {header.bytes} bytes",
        detail=f"The header says {header.width} x {header.height} pixels.",
        hint="Load the whole file again.",
    )


def no_memory(header: Header) -> ImageError:
    """Return the error of a decoder that got no memory."""
    return ImageError(
        f"the {header.format} image cannot be decoded: the server is out of memory",
        detail=f"The image has {header.width} x {header.height} pixels and {header.bytes} bytes.",
        hint="Lower dbinfer's setting max_image_memory to what a session may take.",
        sqlstate="53200",
    )


def limit_of_the_session(header: Header) -> ImageError:
    """Return the error of an image above the limit that OpenCV took when the session began."""
    return ImageError(
        f"the image is too large for this session: {header.width * header.height} pixels",
        hint="The session began with a lower max_image_pixels; connect again.",
        sqlstate="54000",
    )


# versions of OpenCV differ in how they turn pictures, so we do it ourselves
_IGNORE_ORIENTATION: int = cv2.IMREAD_IGNORE_ORIENTATION
# older versions of OpenCV give BGR only, which costs one more pass over the pixels
_RGB: int = getattr(cv2, "IMREAD_COLOR_RGB", 0)
# measured: see reduction()
COVER = 1.5
# the bits that IMREAD_REDUCED_GRAYSCALE_n and IMREAD_REDUCED_COLOR_n have in common
_REDUCED = {1: 0, 2: 16, 4: 32, 8: 64}
# by EXIF orientation: 5 and 7 mirror along a diagonal
_TURNS: Dict[int, Callable[[Any], Any]] = {
    2: lambda image: cv2.flip(image, 1),
    3: lambda image: cv2.rotate(image, cv2.ROTATE_180),
    4: lambda image: cv2.flip(image, 0),
    5: cv2.transpose,
    6: lambda image: cv2.rotate(image, cv2.ROTATE_90_CLOCKWISE),
    7: lambda image: cv2.rotate(cv2.transpose(image), cv2.ROTATE_180),
    8: lambda image: cv2.rotate(image, cv2.ROTATE_90_COUNTERCLOCKWISE),
}


def _silence() -> None:
    """Keep OpenCV's and libtiff's own messages out of the server's log: callers get an ImageError."""
    logging = getattr(cv2.utils, "logging", None)
    if logging is not None:
        logging.setLogLevel(logging.LOG_LEVEL_SILENT)


_silence()


class Target(NamedTuple):
    """Size in pixels that an image will be shrunk to.

    Attributes:
        both: both sides must reach the target (standard, crop); else one of them is enough (fit_to_window).
    """

    width: int
    height: int
    both: bool = True


def target_of(manifest: Manifest) -> Optional[Target]:
    """Return what a decoder may reduce JPEGs to; None where the manifest wants every pixel decoded."""
    # libjpeg averages, which cubic and nearest would not
    if (
        manifest.decode == "exact"
        or manifest.interpolation not in ("linear", "area")
        or manifest.resize in ANY_SIZE
    ):
        return None
    return Target(manifest.width, manifest.height, manifest.resize in ("standard", "crop"))


class Decoder:
    """Decodes the images of one model.

    Args:
        color: RGB, BGR or GRAY.
        target: JPEGs may be decoded at 1/2, 1/4 or 1/8 as long as this size is still covered; None never.
        settings: of a process that decodes AVIF and HEIC in another one, which the first hostile one would take over;
            None where this process may.
        keeps: the pixels are only read, so that whoever asks next may get the same; see `shared_pixels`.
    """

    def __init__(
        self,
        color: str,
        limits: Limits = DEFAULT_LIMITS,
        target: Optional[Target] = None,
        settings: Optional[Dict[str, str]] = None,
        keeps: bool = False,
    ) -> None:
        base = {"GRAY": cv2.IMREAD_GRAYSCALE, "RGB": _RGB or cv2.IMREAD_COLOR}.get(color, cv2.IMREAD_COLOR)
        self._flags = {n: base | reduced | _IGNORE_ORIENTATION for n, reduced in _REDUCED.items()}
        self._bytes_a_pixel = 1 if color == "GRAY" else 3
        self._swap = color == "RGB" and not _RGB
        self._color = color
        self._limits = limits
        self._settings = settings
        self._keeps = keeps
        self.target = target

    def __call__(self, data: bytes) -> Tuple[np.ndarray, Header]:
        """Return the pixels as shown (EXIF orientation applied), and the header.

        Returns:
            uint8 (height, width, 3), or (height, width) for GRAY. Alpha is dropped, 16 bits become 8, an
            animation gives its first frame. `header.size` is the full size, also of a reduced picture.

        Raises:
            ImageError: not an image, cut off, damaged, or above the limits (then with SQLSTATE 54000).
        """
        header, part = self.check(data)
        if not self._keeps or len(data) < SHARED_BYTES:
            return self._pixels(data, header, part), header
        return shared_pixels((self._color, part), data, self._pixels, data, header, part), header

    def _pixels(self, data: bytes, header: Header, part: int) -> np.ndarray:
        # taken apart at once, as in check_cost: such steps are most of what a small image costs
        format_, width, height, _, _, orientation, _, _, _, _, animated = header
        if format_ in heif.FORMATS:
            return self._high_efficiency(data, header)
        # OpenCV's own reader of animations can end the process: see still()
        image = _decode(still(data) if animated else data, header, self._flags[part])
        if part > 1 or format_ == "TIFF" or image.shape[:2] != (height, width):
            check_shape(image.shape, header, part)
        if part > 1:
            image = _without_rest(image, header, part)
        if self._swap:
            # in place: a second picture would double the memory
            image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB, image)
        if orientation > 1 and format_ != "TIFF":  # TIFF: OpenCV does it whatever the flag says
            image = _TURNS[orientation](image)
        return image

    def _high_efficiency(self, data: bytes, header: Header) -> np.ndarray:
        """Return the pixels of an AVIF or HEIC as shown."""
        if self._settings is None:
            image = _high_efficiency(data, header)
        else:
            image = pixels_apart(self._settings, data, header)
        if self._color == "BGR":
            return image
        # gray, too, is made of colours here: decoders differ in how they do it
        found: np.ndarray = cv2.cvtColor(
            image, cv2.COLOR_BGR2GRAY if self._color == "GRAY" else cv2.COLOR_BGR2RGB
        )
        return found

    def check(self, data: bytes) -> Tuple[Header, int]:
        """Return the header and the part at which the image is decoded; raise what is known before the decoder runs."""
        limits = self._limits
        # first, because reading a header may walk over the whole file
        if len(data) > limits.max_bytes:
            raise too_large(len(data), limits.max_bytes, "bytes", "max_image_bytes")
        header = read_header(data, limits)
        part = 1
        if header.format == "JPEG" and self.target is not None:
            part = reduction(header, self.target)
        check_cost(data, header, limits, self._bytes_a_pixel * header.width * header.height // (part * part))
        return header, part


KEPT_BYTES = 48 << 20  # of the two last pictures with their files
SHARED_BYTES = 4096  # of an image that is worth it: to decode a digit takes 14 us, to share it 1
_kept: List[Tuple[Any, bytes, np.ndarray]] = []


def shared_pixels(how: Any, data: bytes, decode: Callable[..., np.ndarray], *args: Any) -> np.ndarray:
    """Return the pixels of an image, decoded now unless it is one of the last two: several models look at one image.

    Two, because of the parts of an image each is the last one in its turn.

    Args:
        how: tells apart what is decoded in several ways.
        decode: is called with `args`.

    Returns:
        What nobody may write to.
    """
    for place, (known, of, image) in enumerate(_kept):
        # equal bytes come again as another object
        if known == how and of == data:
            if place:
                _kept.reverse()
            return image
    # before the next one takes memory
    del _kept[1:]
    image = decode(*args)
    size = len(data) + image.nbytes
    if size <= KEPT_BYTES:
        if size + sum(len(of) + picture.nbytes for _, of, picture in _kept) > KEPT_BYTES:
            _kept.clear()
        _kept.insert(0, (how, data, image))
    return image


def _high_efficiency(data: bytes, header: Header) -> np.ndarray:
    """Return the pixels BGR of an AVIF or HEIC as shown."""
    if header.format == heif.HEIC:
        image = heif.decode_heic(data)
    else:
        image = _decode(data, header, cv2.IMREAD_COLOR | _IGNORE_ORIENTATION)
        if header.orientation > 1:
            image = _TURNS[header.orientation](image)
    check_shape(image.shape, header, 1)
    return np.ascontiguousarray(image)


def raw_picture(limits: Limits, data: bytes) -> Iterator[bytes]:
    """Yield the pixels BGR of an image as shown; see apart."""
    yield Decoder("BGR", limits)(data)[0].tobytes()


def pixels_apart(settings: Dict[str, str], data: bytes, header: Header) -> np.ndarray:
    """Return the pixels BGR of an image as shown, of which a process of its own runs the decoder."""
    width, height = header.size
    raw = apart_once(settings, "image.decode:raw_picture", [data])
    # that process may have been taken over
    if len(raw) != 3 * width * height:
        raise no_result()
    return np.frombuffer(raw, np.uint8).reshape(height, width, 3)


def _without_rest(image: np.ndarray, header: Header, part: int) -> np.ndarray:
    """Return a picture of 1/2, 1/4 or 1/8 without the rest of a last block less than half full.

    libjpeg makes a whole pixel of such a rest; if it stayed, it would squeeze the picture (427 rows at 1/8 by 1.2 %).
    """
    if header.width % part or header.height % part:
        # `or 1`: a side of less than half a block keeps its one pixel
        return image[: round(header.height / part) or 1, : round(header.width / part) or 1]
    return image


def decode(
    data: bytes, color: str = "RGB", limits: Limits = DEFAULT_LIMITS, target: Optional[Target] = None
) -> np.ndarray:
    """Return the pixels of one image; see Decoder."""
    return Decoder(color, limits, target)(data)[0]


def reduction(header: Header, target: Target) -> int:
    """Return 8, 4, 2 or 1: how much smaller an image can be decoded and still cover the target 1.5 times.

    Mean difference from exact decoding, two sharp photographs of 640 x 427: with the margin up to 3.4 and 2.4 grey
    levels, without it 6.2 and 3.6; two good resizers (OpenCV's area, Pillow's bilinear) differ by 2.5 and 1.9. The
    larger the picture, the smaller: 0.5 at 2560 pixels. 12 megapixels for 224 take 11 ms instead of 63.
    """
    width, height = header.size
    across, down = width / target.width, height / target.height
    ratio = (min(across, down) if target.both else max(across, down)) / COVER
    return 1 if ratio < 2 else 2 if ratio < 4 else 4 if ratio < 8 else 8


def reduction_of(header: Header, target: Optional[Target]) -> int:
    """Return at which part of its size a Decoder with this target decodes an image."""
    return reduction(header, target) if header.format == "JPEG" and target is not None else 1


def _decode(data: bytes, header: Header, flags: int) -> np.ndarray:
    reason = ""
    try:
        # frombuffer only looks at the bytes, which may be hundreds of megabytes
        image: Optional[np.ndarray] = cv2.imdecode(np.frombuffer(data, np.uint8), flags)
        if image is not None:
            return image
    except cv2.error as err:
        reason = f": {str(err).strip().splitlines()[0]}"
        # some of OpenCV's errors carry no code
        if getattr(err, "code", 0) == cv2.Error.StsNoMem:
            raise no_memory(header) from err
        # the limit that OpenCV read at its import, not the one of now
        if "CV_IO_MAX_IMAGE_PIXELS" in reason:
            raise limit_of_the_session(header) from err
    except MemoryError as err:
        raise no_memory(header) from err
    raise ImageError(
        f"the {header.format} image is damaged or of an unsupported kind: OpenCV cannot decode it",
        detail=f"{header.width} x {header.height}, {header.bytes} bytes, OpenCV {cv2.__version__}{reason}",
        hint="OpenCV reads GIF from version 4.12 on." if header.format == "GIF" else HINT,
    )
