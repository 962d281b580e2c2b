"""Zygotes: processes that have imported numpy, OpenCV and OpenVINO, have no threads, and fork the loaders of models."""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import socket
import sys
import traceback
import warnings
from typing import Any, Dict, List, Optional, Tuple

from ..errors import EngineError
from ..host import libraries, protocol, sandbox
from ..host.libraries import site_packages
from ..image import heif
from ..image.file import image_limits

MOST_FDS = 4


class Zygotes:
    """Processes that have imported the libraries and fork loaders."""

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        # OpenCV reads its limit of pixels once, at its import; a venv that has changed must be imported anew
        self._known: Dict[Tuple[str, int, int], Tuple[int, socket.socket]] = {}

    def fork(self, settings: Dict[str, str], fds: List[int]) -> None:
        """Have a loader forked that inherits these descriptors."""
        venv = settings.get("venv", "")
        key = venv, image_limits(settings).max_pixels, _state(venv)
        for _ in range(2):
            if key not in self._known:
                self._known[key] = self._make(*key)
            channel = self._known[key][1]
            try:
                socket.send_fds(channel, [b"loader"], fds)
                return
            except OSError:  # it was killed
                self._drop(key)
        raise OSError(32, "the engine's zygote ends as soon as it has started")

    def _make(self, venv: str, max_pixels: int, state: int) -> Tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _become_zygote(parent, theirs, venv, max_pixels)
        theirs.close()
        self._supervisor.watch(ours, lambda: self._drop((venv, max_pixels, state)))
        return pid, ours

    def _drop(self, key: Tuple[str, int, int]) -> None:
        """End a zygote, which may have ended already: then its channel is readable."""
        if key not in self._known:
            return
        pid, channel = self._known.pop(key)
        self._supervisor.forget(channel)
        channel.close()
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, 0)

    def kill(self) -> None:
        """End all, and with them the loaders and workers."""
        for key in list(self._known):
            self._drop(key)


def _state(venv: str) -> int:
    """Return when packages were last installed in a venv; 0 where there is none."""
    try:
        return os.stat(site_packages(venv, "%d.%d" % sys.version_info[:2])).st_mtime_ns
    except OSError:
        return 0


def _become_zygote(parent: int, channel: socket.socket, venv: str, max_pixels: int) -> None:
    """Be the child; never return."""
    try:
        sandbox.die_with(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        sandbox.set_title("dbinfer-engine", "zygote of %s" % (venv or "no virtual environment"))
        be_zygote(channel, venv, max_pixels)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)


def be_zygote(channel: socket.socket, venv: str, max_pixels: int) -> None:
    """Import the libraries, then fork a loader for each message; end with the channel."""
    sandbox.close_all_but([channel.fileno()])
    # the kernel collects the loaders; the supervisor sees the end of each at its channel
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Python warns of threads at a fork; OpenVINO's sleep, and a child never needs them
    warnings.simplefilter("ignore")
    sandbox.more_likely_victim()
    # no network; where the kernel has no such filter, the loaders report it
    with contextlib.suppress(OSError):
        sandbox.forbid()
    failed = _imported(venv, max_pixels)
    # a garbage collection in a loader would write to the memory that it shares with this process
    gc.collect()
    gc.freeze()
    while True:
        message, fds, _, _ = socket.recv_fds(channel, 64, MOST_FDS)
        if not message:
            return
        if failed is not None:
            _refuse(fds[0], failed)
            return
        try:
            if os.fork() == 0:
                _be_loader(fds)
        except OSError as err:  # too many processes, or no memory: the loaders that are there go on
            _refuse(os.dup(fds[0]), EngineError("the engine cannot start a process: %s" % err.strerror))
        for fd in fds:
            os.close(fd)


def _imported(venv: str, max_pixels: int) -> Optional[Exception]:
    try:
        libraries.import_libraries(venv, max_pixels)
        # what a loader needs, so that each finds it imported
        from . import loader  # noqa: F401 - with all that imports the libraries, which the venv has from here on

        # a worker can open no file any more, so it could not import this for its first HEIC
        heif.library()
    except Exception as err:
        return err
    return None


def _refuse(fd: int, failed: Exception) -> None:
    with socket.socket(fileno=fd) as channel, contextlib.suppress(OSError):
        channel.send(json.dumps({"error": protocol.describe_error(failed)}).encode())


def _be_loader(fds: List[int]) -> None:
    """Be the child; never return."""
    from .loader import Loader

    try:
        parent = os.getppid()
        sandbox.close_all_but(fds)
        sandbox.die_with(parent)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        channel, listener, memory, call = fds
        with os.fdopen(call) as source:
            wanted: Any = json.load(source)
        Loader(socket.socket(fileno=channel), socket.socket(fileno=listener), memory, wanted).run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
