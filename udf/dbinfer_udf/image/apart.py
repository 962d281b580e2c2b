"""Decodes and draws in a process of its own: it may crash, and has no right but to compute and to answer."""

from __future__ import annotations

import contextlib
import os
import time

from ..errors import ImageError, UdfError
from ..host import protocol
from ..tasks import imported
from . import heif
from .file import image_limits

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Iterator, List, Sequence

SECONDS = 60.0  # until the next answer
# Of a pipe, the most without rights: with 64 kB both sides woke up a dozen times for each tile of 512 x 512 (9.6 ms of
# a tile instead of 3.4)
PIPE_BYTES, SET_PIPE_SIZE = 1 << 20, 1031  # fcntl.F_SETPIPE_SZ, which Python knows from 3.10 on


def apart(
    settings: Dict[str, str], step: str, parts: Sequence[bytes], arguments: Sequence[Any] = ()
) -> Iterator[Any]:
    """Yield what a function of this package yields there, or raise what it raises.

    Args:
        step: the function, as `module:name` of this package. It gets the limits, the parts and the arguments, and
            yields bytes or text.
        arguments: what JSON can hold.

    Raises:
        ImageError: the process ends instead, or writes without end.
    """
    # only where it is needed, because a session that asks for an image's facts waits for imports
    from ..host import own_python, sandbox

    files = [sandbox.memory_file("dbinfer-image", part) for part in parts]
    try:
        call = {"settings": settings, "files": files, "step": step, "arguments": arguments}
        process = _started(call, own_python.python_of(settings), files)
    finally:
        for number in files:
            os.close(number)
    try:
        yield from answers(process, image_limits(settings).max_memory)
    finally:
        process.kill()
        process.wait()  # a backend must not collect zombies
        process.stdout.close()


def apart_once(
    settings: Dict[str, str], step: str, parts: Sequence[bytes], arguments: Sequence[Any] = ()
) -> bytes:
    """Return the only answer of a function that `apart` runs."""
    # more than one comes only from a process that was taken over; it ends here
    for said in apart(settings, step, parts, arguments):
        if isinstance(said, bytes):
            return said
    raise no_result()


def no_result(detail: str = "") -> ImageError:
    """Return the error of a process that did not give what it must."""
    return ImageError("decoding ended without a result: the image may be hostile", detail=detail)


def _started(call: Dict[str, Any], python: str, files: List[int]) -> Any:
    import fcntl
    import subprocess

    from ..host import own_python

    program = own_python.program_of("image.apart", call)
    try:
        process = own_python.start_python(
            python, program, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, pass_fds=files
        )
    except OSError as err:
        problem = "the Python that decodes, %s, cannot be started: %s" % (python, err.strerror)
        hint = "Make the environment again: dbinfer doctor says which."
        raise UdfError(
            problem, hint=hint, sqlstate="58000", public="such images cannot be decoded here"
        ) from err
    # slower, but no less right, where the user has too many large ones
    with contextlib.suppress(OSError):
        fcntl.fcntl(process.stdout, SET_PIPE_SIZE, PIPE_BYTES)
    return process


def answers(process: Any, most: int) -> Iterator[Any]:
    """Yield what a process answers, until it says that this is all.

    Args:
        most: bytes of an answer.
    """
    head = protocol.ANSWER
    while True:
        magic, kind, size = head.unpack(_read(process, head.size))
        # a process that a hostile image has taken over writes without end
        if magic != protocol.MAGIC or size > most:
            raise ImageError("the process that decodes gave more than an image", sqlstate="54000")
        said = protocol.unpack_answer(kind, _read(process, size))
        if said is None:
            return
        yield said


def _read(process: Any, size: int) -> bytes:
    """Return so many bytes of what a process writes."""
    import select

    said, left, out, until = [], size, process.stdout.fileno(), time.monotonic() + SECONDS
    while left:
        if select.select([out], [], [], protocol.STEP)[0]:
            block = os.read(out, min(left, 1 << 20))
            if not block:
                # the server's signal goes to this process and to that one
                protocol.look_for_cancel()
                raise no_result("The process that decoded it ended with status %d." % process.wait())
            said.append(block)
            left -= len(block)
        protocol.look_for_cancel()
        if time.monotonic() > until:
            raise ImageError("decoding took more than %d s" % SECONDS, sqlstate="54000")
    return b"".join(said)


def child(call: Dict[str, Any]) -> None:
    """Be the process: read the parts, give up all rights, take the step, answer."""
    from ..host.libraries import import_libraries

    parts = [_content(number) for number in call["files"]]
    limits = image_limits(call["settings"])
    import_libraries(call["settings"].get("venv", ""), limits.max_pixels)
    # imported while files can still be opened
    step = imported(call["step"])
    is_heic = heif.kind_of(parts[0]) == heif.HEIC
    if is_heic:
        heif.library()
    _give_up(4 * limits.max_memory, is_heic)
    with os.fdopen(1, "wb") as out:
        try:
            for said in step(limits, *parts, *call["arguments"]):
                out.write(protocol.pack_answer(said))
                out.flush()
            out.write(protocol.pack_answer(None))
        except Exception as err:
            out.write(protocol.pack_error(err))
    os._exit(0)


def _give_up(memory: int, starts_threads: bool) -> None:
    """Bound the memory, and take all rights but to compute and to answer, as far as this kernel knows how.

    Args:
        starts_threads: as the decoder of HEIC does.
    """
    import resource

    from ..host import sandbox

    # before it may read no files, which say it
    alone = sandbox.count_threads() == 1
    sandbox.no_new_privileges()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))
    for restrict in (
        sandbox.restrict_files,
        lambda: sandbox.restrict_calls(os.getpid(), -1, alone, starts_threads),
    ):
        with contextlib.suppress(OSError):
            restrict()


def _content(number: int) -> bytes:
    with os.fdopen(number, "rb") as file:
        return file.read()
