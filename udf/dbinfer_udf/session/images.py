"""What needs no model: facts of an image from its header, frames, tiles, parts, drawings, likeness, and samples."""

from __future__ import annotations

from typing import Any, Callable, Dict, Iterator, Optional, Set, Tuple

from ..engine.models import ALWAYS
from ..errors import CancelledError, UsageError
from ..host import interrupts
from ..image import heif
from ..image.apart import apart, apart_once
from ..image.file import FRAME_TIME, UNTIMED, Limits, image_limits
from ..image.header import read_header


def draw(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Return the image with boxes or a mask on it; `settings` stand in for the model.

    Args:
        k: JSON of what was found, see draw.drawn, and the mask; either may be None.
    """
    # the promise of `always`: no image is decoded in a backend. An engine serves one model, and this is none's.
    if settings.get("isolation") == ALWAYS or heif.kind_of(img) or heif.kind_of(k[1] or b""):
        return drawn_apart(settings, img, k)
    return drawn(settings, img, k)


def drawn(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Draw in this process."""
    limits = _with_libraries(settings)
    from ..image.draw import drawn as draw_here

    return draw_here(img, *k, limits, look_for_cancel)


def drawn_apart(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Draw in a process of its own."""
    found, mask = k
    parts = [img, (found or "").encode(), mask or b""]
    return apart_once(settings, "image.draw:drawn_apart", parts, [mask is not None])


def crop(settings: Dict[str, str], img: bytes, k: Tuple[str, float]) -> bytes:
    """Return a part of the image as a BMP file.

    Args:
        k: JSON of the box, and the margin; see crop.region.
    """
    limits = _with_libraries(settings)
    from ..image.crop import cropped, region

    # before a decoder runs
    region(*k)
    picture = _pixels(settings, img, limits)
    look_for_cancel()
    return cropped(picture, *k, limits)


def _pixels(settings: Dict[str, str], img: bytes, limits: Limits) -> Any:
    """Return the pixels BGR of an image as shown."""
    from ..image.decode import Decoder, pixels_apart, shared_pixels

    decode = Decoder("BGR", limits, settings=settings, keeps=True)
    if settings.get("isolation") != ALWAYS:
        return decode(img)[0]
    header, _ = decode.check(img)
    return shared_pixels(ALWAYS, img, pixels_apart, settings, img, header)


def frames(settings: Dict[str, str], data: bytes, every: Optional[float]) -> Iterator[Any]:
    """Yield number (from 1), time in microseconds, and BMP file of each picture; image.frames finds them apart.

    Args:
        every: seconds; of each span of this length only the first picture counts. None: all.
    """
    if every is not None and not 1e-6 <= every < 1e9:
        problem = "every is %g seconds, but must be more than 0" % every
        raise UsageError(problem, hint="For example every => '1 s'; NULL gives every picture.")
    span = None if every is None else round(every * 1e6)
    for number, said in enumerate(apart(settings, "image.frames:frames", [data], [span]), 1):
        (at,) = FRAME_TIME.unpack_from(said)
        yield number, None if at == UNTIMED else at, said[FRAME_TIME.size :]


MOST_SIDE = 16384  # of a tile, as of a network's input


def tiles(settings: Dict[str, str], data: bytes, k: Tuple[Optional[int], Optional[int]]) -> Iterator[Any]:
    """Yield left, top and BMP file of each tile of an image.

    Args:
        k: width and height of a tile, and by how much neighbours overlap; in pixels.
    """
    size, overlap = k
    if size is None or not 1 <= size <= MOST_SIDE:
        raise UsageError("size is %s, but must be from 1 to %d pixels" % (_said(size), MOST_SIDE))
    if overlap is None or not 0 <= overlap <= size // 2:
        problem = "overlap is %s, but must be from 0 to half a tile, %d pixels" % (_said(overlap), size // 2)
        raise UsageError(problem, hint="Of what lies within the overlap, both neighbours see all.")
    limits = _with_libraries(settings)
    from ..image import tiles as cut_here

    cut = cut_here.Cut(size, size, overlap, overlap)
    places = cut_here.grid_of(data, cut, limits).places
    found = cut_here.tiles(settings, data, cut, settings.get("isolation") == ALWAYS)
    for (x, y), tile in zip(places, found):
        yield x, y, tile
        look_for_cancel()


def _said(value: Optional[int]) -> str:
    return "NULL" if value is None else str(value)


_imported: Set[str] = set()  # the environments whose libraries this session has


def _with_libraries(settings: Dict[str, str]) -> Limits:
    limits, venv = image_limits(settings), settings.get("venv", "")
    # once: each row comes here, and an import looks at the environment and starts a thread. What loads a model looks
    # each time, so that an environment that has gone is named
    if venv not in _imported:
        # imported only here, because a session that asks for an image's facts waits for imports
        from ..host.libraries import import_libraries

        import_libraries(venv, limits.max_pixels)
        _imported.add(venv)
    return limits


def look_for_cancel() -> None:
    """Raise where the server wants this statement to end."""
    if interrupts.cancelled():
        raise CancelledError("the statement was cancelled while it worked on an image")


def image_info(settings: Dict[str, str], img: bytes, k: Optional[int]) -> str:
    """Return a literal of dbinfer.image_facts from the header alone; `settings` stand in for the model."""
    header = read_header(img, image_limits(settings))
    return "(%s,%d,%d,%d,%d)" % (header.format, *header.size, header.channels, header.bytes)


def alike(settings: Dict[str, str], img: bytes, k: Tuple[bytes, int, float]) -> Iterator[Any]:
    """Yield which embeddings of two blocks are nearly alike; see vectors.alike."""
    _with_libraries(settings)
    from ..result.vectors import alike as alike_here

    return alike_here(img, *k)


def sampling(settings: Dict[str, str], asked: bytes, k: Optional[int]) -> str:
    """Return which rows to score next for an estimate, and what is known now; see sampling.next_round."""
    from .sampling import next_round

    return next_round(asked.decode())


def finding(settings: Dict[str, str], asked: bytes, k: Optional[int]) -> str:
    """Return which rows to score next for a search, and what is known now; see finding.next_round."""
    from .finding import next_round

    return next_round(asked.decode())


def image(settings: Dict[str, str], reference: str, etag: Optional[str]) -> bytes:
    """Return the image to which a reference leads; `settings` know the stores that the user may read."""
    from ..store.reader import read_image

    return read_image(settings, reference, etag, image_limits(settings).max_bytes)


def ask(settings: Dict[str, str], reference: str, _k: None) -> bytes:
    """Return what stands for that image in a batch; it is fetched while others are scored."""
    from ..store.reader import ask_for_image

    return ask_for_image(settings, reference, image_limits(settings).max_bytes)


def list_files(settings: Dict[str, str], folder: str, after: str) -> Any:
    """Return the next files of a folder in a store; see reader.list_files."""
    from ..store.reader import list_files as list_here

    return list_here(settings, folder, after)


IMAGE_TASKS: Dict[str, Callable[[Any, Any, Any], Any]] = {
    "image": image,
    "ask": ask,
    "list": list_files,
    "image_info": image_info,
    "draw": draw,
    "crop": crop,
    "frames": frames,
    "tiles": tiles,
    "alike": alike,
    "sampling": sampling,
    "finding": finding,
}
