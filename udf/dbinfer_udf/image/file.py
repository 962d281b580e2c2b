"""What an image file says of itself and what it may cost: a header, the limits, and TIFF's directories (EXIF)."""

from __future__ import annotations

import struct
from typing import Dict, Iterator, NamedTuple, Optional, Tuple, Union

from ..errors import ImageError, UsageError


class Header(NamedTuple):
    """What an image file says of itself without any pixel decoded.

    Attributes:
        format: one of FORMATS.
        width, height: in pixels, as stored.
        channels: as in the file: 1 gray, 2 gray with alpha, 3 colour or palette, 4 colour with alpha or CMYK.
        bytes: size of the file.
        orientation: EXIF's 1 to 8; from 5 on, width and height swap when the image is shown.
        complete: false where the file was cut off, which decoders often show as a picture that is half gray.
        scans: passes over the pixels; more than one in a progressive JPEG.
        buffers: bytes that the decoder takes beside the pixels which it returns.
        seconds: that decoding takes on one core, estimated rather too high (docs/explanation/security.md).
        animated: whether it is a PNG or an AVIF of several pictures.
    """

    format: str
    width: int
    height: int
    channels: int
    bytes: int
    orientation: int = 1
    complete: bool = True
    scans: int = 1
    buffers: int = 0
    seconds: float = 0.0
    animated: bool = False

    @property
    def size(self) -> Tuple[int, int]:
        """Width and height of the image as shown, the orientation applied."""
        return (self.width, self.height) if self.orientation < 5 else (self.height, self.width)


FRAME_TIME = struct.Struct("<q")  # before each picture of image.frames: microseconds, or UNTIMED
UNTIMED = -1
FREE_MEMORY = 128 << 20  # what any file may take, however small: 16 to 40 megapixels


class Limits(NamedTuple):
    """The largest image that is decoded; each limit is a setting, `max_image_` and the name behind `max_`.

    All are checked before the decoder runs, which nothing can interrupt.

    Attributes:
        max_bytes: bytes of the file.
        max_pixels: width x height, as the decoder will see them.
        max_memory: bytes of memory that decoding takes at its peak.
        max_expansion: bytes of memory for each byte of the file, beyond 128 MiB; pictures take 5 to 200, and a file
            of 35 bytes may claim 100 megapixels.
        max_scans: passes of a progressive JPEG over its pixels, also within a TIFF; encoders write 6 to 18.
        max_segments: JPEG segments, PNG and WebP chunks, GIF blocks, TIFF strips and tiles, each of which costs time or
            memory however small it is; encoders write hundreds.
        max_frames: images of an animation, pages of a TIFF, of which only the first is decoded but by dbinfer.frames;
            and what that returns of a film.
        max_seconds: estimated seconds of decoding on one core.
    """

    max_bytes: int = 256 << 20
    max_pixels: int = 100_000_000
    max_memory: int = 512 << 20
    max_expansion: int = 20_000
    max_scans: int = 100
    max_segments: int = 65_536
    max_frames: int = 10_000
    max_seconds: int = 5

    def memory_for(self, size: int) -> int:
        """Return the bytes of memory that a file of this size may take."""
        return min(self.max_memory, FREE_MEMORY + size * self.max_expansion)


DEFAULT_LIMITS = Limits()


def image_limits(settings: Dict[str, str]) -> Limits:
    """Return the limits from the settings; the default of each that is not set.

    Raises:
        UsageError: a setting is no whole number.
    """
    given = {name: "max_image_" + name[4:] for name in Limits._fields}
    return Limits(**{name: _number(key, settings[key]) for name, key in given.items() if key in settings})


def _number(name: str, value: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise UsageError(
            f"dbinfer's setting {name} is {value!r}, but must be a whole number",
            hint="Set it anew, or remove it for the default.",
        ) from None


def too_large(value: Union[int, str], limit: int, unit: str, name: str) -> ImageError:
    """Return the error of an image above a limit; `name` is that of the setting, `unit` what the numbers count."""
    return ImageError(
        f"the image is too large: {value} {unit}, but the limit is {limit}",
        hint=f"Store a smaller image, or raise the limit: SELECT dbinfer.set_setting('{name}', '...');",
        sqlstate="54000",
    )


def too_much_memory(memory: int, size: int, limits: Limits) -> ImageError:
    """Return the error of an image whose decoding takes too much memory, or too much for so small a file."""
    allowed = limits.memory_for(size)
    # the setting to raise is that of the tighter of the two limits
    name = "max_image_memory" if allowed == limits.max_memory else "max_image_expansion"
    return too_large(memory, allowed, f"bytes of memory to decode {size} bytes", name)


def check_count(count: int, limit: int, unit: str, name: str) -> None:
    """Raise if a walk over a file has seen more than the limit."""
    if count > limit:
        raise too_large(f"more than {limit}", limit, unit, name)


ORIENTATION = 274
MOST_ENTRIES = 4096  # libtiff's own bound: more is no directory

_WHOLE_NUMBERS = {1: "B", 3: "H", 4: "I", 16: "Q"}


class Layout(NamedTuple):
    """How a file writes numbers and directories: TIFF or BigTIFF, little or big end first."""

    end: str
    first: int
    offset: str
    length: str
    entry: int
    value_at: int


class Entry(NamedTuple):
    """One tag of a directory; its value stands at `at`, or that holds the offset of a longer one."""

    tag: int
    kind: int
    values: int
    at: int


def layout_of(data: bytes) -> Layout:
    """Return how a TIFF is written, from its first four bytes."""
    end = "<" if data[:1] == b"I" else ">"
    # 43 is BigTIFF, with offsets of 8 bytes
    return Layout(end, 8, "Q", "Q", 20, 12) if 43 in data[2:4] else Layout(end, 4, "I", "H", 12, 8)


def first_directory(data: bytes, layout: Layout) -> int:
    """Return the offset of the first directory."""
    return int(struct.unpack_from(layout.end + layout.offset, data, layout.first)[0])


def directory_end(data: bytes, layout: Layout, at: int) -> int:
    """Return the offset behind a directory's entries, where that of the next one stands."""
    count = struct.unpack_from(layout.end + layout.length, data, at)[0]
    return int(at + struct.calcsize("<" + layout.length) + layout.entry * count)


def entries(data: bytes, layout: Layout, at: int) -> Iterator[Entry]:
    """Yield the entries of a directory.

    Raises:
        struct.error, OverflowError: the directory lies beyond the end of the data.
    """
    end, start = layout.end, at + struct.calcsize("<" + layout.length)
    stop = min(directory_end(data, layout, at), start + MOST_ENTRIES * layout.entry)
    unpack = struct.Struct(end + "HH" + layout.offset).unpack_from
    for pos in range(start, stop, layout.entry):
        tag, kind, count = unpack(data, pos)
        yield Entry(tag, kind, count, pos + layout.value_at)


def number(data: bytes, layout: Layout, entry: Entry) -> Optional[int]:
    """Return the first value of an entry of whole numbers; None for entries of other types."""
    found = numbers(data, layout, entry, 1)
    return None if found is None else found[0]


def numbers(data: bytes, layout: Layout, entry: Entry, most: int) -> Optional[Tuple[int, ...]]:
    """Return the values of an entry of whole numbers, the first one at least and so many at most."""
    form = _WHOLE_NUMBERS.get(entry.kind)
    if form is None:
        return None
    at = entry.at
    if struct.calcsize("<" + form) * entry.values > struct.calcsize("<" + layout.offset):
        at = struct.unpack_from(layout.end + layout.offset, data, at)[0]
    return struct.unpack_from("%s%d%s" % (layout.end, max(1, min(entry.values, most)), form), data, at)


def valid_orientation(orientation: int) -> int:
    """Return EXIF's orientation, or 1 where the value is none of 1 to 8."""
    return orientation if 1 <= orientation <= 8 else 1


def exif_orientation(exif: bytes) -> int:
    """Return the orientation in an EXIF block, its byte order first; 1 without one or if damaged."""
    if exif[:4] not in (b"II*\0", b"MM\0*"):
        return 1
    layout = layout_of(exif)
    try:
        for entry in entries(exif, layout, first_directory(exif, layout)):
            if entry.tag == ORIENTATION:
                return valid_orientation(number(exif, layout, entry) or 1)
    except (struct.error, OverflowError):
        # a damaged EXIF block does not make the picture damaged
        pass
    return 1
