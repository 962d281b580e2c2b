"""Draws in a process of its own, which may crash, and can open no file and send nothing once it has the image."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import subprocess
import time
from typing import Any, Dict, Optional, Tuple

from ..errors import ImageError, UdfError
from ..host import own_python, protocol, sandbox
from ..host.image_limits import image_limits
from ..host.protocol import STEP, look
from ..model.tried import python_of

SECONDS = 60.0


def drawn_apart(settings: Dict[str, str], img: bytes, k: Tuple[Optional[str], Optional[bytes]]) -> bytes:
    """Return what draw.drawn returns, or raise what it raises; ImageError where the process ends instead."""
    detections, mask = k
    parts = [img, (detections or "").encode(), mask or b""]
    files = [sandbox.memory_file("dbinfer-draw", part) for part in parts]
    try:
        call = {"settings": settings, "files": files, "masked": mask is not None}
        process = _started(call, python_of(settings), files)
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
    program = own_python.program("session.draw_apart", call)
    try:
        return own_python.started(
            python, program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=files
        )
    except OSError as err:
        problem = "the Python that draws, %s, cannot be started: %s" % (python, err.strerror)
        hint = "Make the environment again: dbinfer doctor says which."
        raise UdfError(problem, hint=hint, sqlstate="58000", public="nothing can be drawn here") from err


def _answer(process: Any, most: int) -> bytes:
    said, size, out, until = [], 0, process.stdout.fileno(), time.monotonic() + SECONDS
    while True:
        if select.select([out], [], [], STEP)[0]:
            block = os.read(out, 1 << 20)
            if not block:
                break
            said.append(block)
            size += len(block)
            # a process that a hostile image has taken over writes without end
            if size > protocol.ANSWER.size + most:
                raise ImageError("drawing gave more than an image", sqlstate="54000")
        look()
        if time.monotonic() > until:
            raise ImageError("drawing took more than %d s" % SECONDS, sqlstate="54000")
    answer = b"".join(said)
    head = protocol.ANSWER.size
    if len(answer) < head:
        raise ImageError("drawing ended without a result: the image may be hostile", detail=_ending(process))
    _, kind, size = protocol.ANSWER.unpack(answer[:head])
    result: bytes = protocol.result(kind, answer[head : head + size])
    return result


def _ending(process: Any) -> str:
    return "The process that drew it ended with status %d." % process.wait()


def child(call: Dict[str, Any]) -> None:
    """Be that process: read what is to be drawn, give up all rights, draw, answer."""
    from ..host.libraries import load

    img, detections, mask = (_content(number) for number in call["files"])
    settings = call["settings"]
    limits = image_limits(settings)
    load(settings.get("venv", ""), limits.max_pixels)
    # imported while files can still be opened; their threads, too, are to start under the filter
    import cv2

    from ..image.draw import drawn

    cv2.setNumThreads(1)
    _give_up(4 * limits.max_memory)
    try:
        masked = mask if call["masked"] else None
        said = protocol.answer(drawn(img, detections.decode(), masked, limits))
    except Exception as err:
        said = protocol.failure(err)
    with os.fdopen(1, "wb") as out:
        out.write(said)
    os._exit(0)


def _give_up(memory: int) -> None:
    """Bound the memory, and take all rights but to compute and to answer, as far as this kernel knows how."""
    sandbox.no_new_privileges()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for restrict in (
        sandbox.restrict_files,
        lambda: sandbox.restrict_calls(os.getpid(), -1, sandbox.threads() == 1),
    ):
        with contextlib.suppress(OSError):
            restrict()


def _content(number: int) -> bytes:
    with os.fdopen(number, "rb") as file:
        return file.read()
