"""How much one image may cost: the limits, and the error that names the value, the limit and the setting."""

from __future__ import annotations

from typing import Dict, NamedTuple, Union

from ..errors import ImageError, UsageError

FREE_MEMORY = 128 << 20  # what any file may take, however small: 16 to 40 megapixels


class Limits(NamedTuple):
    """The largest image that is decoded; each limit is a setting, `max_image_` and the name behind `max_`.

    All are checked before the decoder runs, which nothing can interrupt.

    Attributes:
        max_bytes: of the file.
        max_pixels: width x height, as the decoder will see them.
        max_memory: bytes that decoding takes at its peak.
        max_expansion: bytes of memory for each byte of the file, beyond FREE_MEMORY: a file of 35 bytes may claim
            100 megapixels, and real pictures take 5 to 200 bytes of memory for each of their own.
        max_scans: passes of a progressive JPEG over its pixels; encoders write 6 to 18.
        max_segments: JPEG segments, PNG and WebP chunks, GIF blocks, TIFF strips and tiles: what costs time or memory
            however small it is. Encoders write hundreds.
        max_frames: images of an animation, pages of a TIFF; all are walked over, only the first is decoded.
        max_seconds: that decoding takes on one core by our estimate; see docs/security.md.
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
    """Raise where a walk over a file has seen more than it may."""
    if count > limit:
        raise too_large(f"more than {limit}", limit, unit, name)
