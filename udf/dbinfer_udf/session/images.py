"""What needs no model: the facts of an image from its header, drawing on an image, and embeddings that are alike.

Drawing may have to happen in a process of its own, which may crash, and can open no file and send nothing once it has
the image.
"""

from __future__ import annotations

import contextlib
import os
import time
from typing import Any, Callable, Dict, Iterator, Optional, Tuple

from ..engine.models import ALWAYS
from ..errors import CancelledError, ImageError, UdfError
from ..host import interrupts, protocol
from ..image.file import image_limits
from ..image.header import read_header

SECONDS = 60.0  # for drawing in a process of its own


def draw(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Return the image with boxes or a mask on it; `settings` stand in for the model.

    Args:
        k: JSON of the detections, and the mask; either may be None.
    """
    # the promise of `always`: no image is decoded in a backend. An engine serves one model, and this is none's.
    if settings.get("isolation") == ALWAYS:
        return drawn_apart(settings, img, k)
    return drawn(settings, img, k)


def drawn(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Draw in this process."""
    from ..host.libraries import import_libraries

    limits = image_limits(settings)
    import_libraries(settings.get("venv", ""), limits.max_pixels)
    from ..image.draw import drawn as draw_here

    return draw_here(img, *k, limits, look_for_cancel)


def drawn_apart(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Return what draw.drawn returns, or raise what it raises; ImageError where the process ends instead."""
    # as below: only where it is needed, because a session that asks for an image's facts waits for imports
    from ..host import own_python, sandbox

    detections, mask = k
    parts = [img, (detections or "").encode(), mask or b""]
    files = [sandbox.memory_file("dbinfer-draw", part) for part in parts]
    try:
        call = {"settings": settings, "files": files, "masked": mask is not None}
        process = _started(call, own_python.python_of(settings), files)
    finally:
        for number in files:
            os.close(number)
    try:
        return _answer(process, image_limits(settings).max_memory)
    finally:
        process.kill()
        process.wait()  # a backend must not collect zombies
        process.stdout.close()


def _started(call: Dict[str, Any], python: str, files: Any) -> Any:
    import subprocess

    from ..host import own_python

    program = own_python.program_of("session.images", call)
    try:
        return own_python.start_python(
            python, program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=files
        )
    except OSError as err:
        problem = "the Python that draws, %s, cannot be started: %s" % (python, err.strerror)
        hint = "Make the environment again: dbinfer doctor says which."
        raise UdfError(problem, hint=hint, sqlstate="58000", public="nothing can be drawn here") from err


def _answer(process: Any, most: int) -> bytes:
    import select

    said, size, out, until = [], 0, process.stdout.fileno(), time.monotonic() + SECONDS
    while True:
        if select.select([out], [], [], protocol.STEP)[0]:
            block = os.read(out, 1 << 20)
            if not block:
                break
            said.append(block)
            size += len(block)
            # a process that a hostile image has taken over writes without end
            if size > protocol.ANSWER.size + most:
                raise ImageError("drawing gave more than an image", sqlstate="54000")
        protocol.look_for_cancel()
        if time.monotonic() > until:
            raise ImageError("drawing took more than %d s" % SECONDS, sqlstate="54000")
    answer = b"".join(said)
    head = protocol.ANSWER.size
    if len(answer) < head:
        protocol.look_for_cancel()  # the server's signal goes to this process and to the one that draws
        raise ImageError("drawing ended without a result: the image may be hostile", detail=_ending(process))
    _, kind, size = protocol.ANSWER.unpack(answer[:head])
    result: bytes = protocol.unpack_answer(kind, answer[head : head + size])
    return result


def _ending(process: Any) -> str:
    return "The process that drew it ended with status %d." % process.wait()


def child(call: Dict[str, Any]) -> None:
    """Be the process that draws: read what is to be drawn, give up all rights, draw, answer."""
    from ..host.libraries import import_libraries

    img, detections, mask = (_content(number) for number in call["files"])
    settings = call["settings"]
    limits = image_limits(settings)
    import_libraries(settings.get("venv", ""), limits.max_pixels)
    # imported while files can still be opened; their threads, too, are to start under the filter
    import cv2

    from ..image.draw import drawn as draw_here

    cv2.setNumThreads(1)
    _give_up(4 * limits.max_memory)
    try:
        masked = mask if call["masked"] else None
        said = protocol.pack_answer(draw_here(img, detections.decode(), masked, limits))
    except Exception as err:
        said = protocol.pack_error(err)
    with os.fdopen(1, "wb") as out:
        out.write(said)
    os._exit(0)


def _give_up(memory: int) -> None:
    """Bound the memory, and take all rights but to compute and to answer, as far as this kernel knows how."""
    import resource

    from ..host import sandbox

    sandbox.no_new_privileges()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for restrict in (
        sandbox.restrict_files,
        lambda: sandbox.restrict_calls(os.getpid(), -1, sandbox.count_threads() == 1),
    ):
        with contextlib.suppress(OSError):
            restrict()


def _content(number: int) -> bytes:
    with os.fdopen(number, "rb") as file:
        return file.read()


def look_for_cancel() -> None:
    """Raise where the server wants this statement to end."""
    if interrupts.cancelled():
        raise CancelledError("the statement was cancelled while it drew")


def image_info(settings: Dict[str, str], img: bytes, k: Optional[int]) -> str:
    """Return a literal of dbinfer.image_facts from the header alone; `settings` stand in for the model."""
    header = read_header(img, image_limits(settings))
    return "(%s,%d,%d,%d,%d)" % (header.format, *header.size, header.channels, header.bytes)


def alike(settings: Dict[str, str], img: bytes, k: Tuple[bytes, int, float]) -> Iterator[Any]:
    """Yield which embeddings of two blocks are nearly alike; see vectors.alike."""
    from ..host.libraries import import_libraries

    import_libraries(settings.get("venv", ""), image_limits(settings).max_pixels)
    from ..result.vectors import alike as alike_here

    return alike_here(img, *k)


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
    "alike": alike,
}
