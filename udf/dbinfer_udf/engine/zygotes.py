"""The supervisor's side of the zygotes: one for each virtual environment, made when a model first needs it."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import sys
import traceback
from typing import Any, Dict, List, Tuple

from ..image_limits import image_limits
from ..venv import site_packages
from . import kernel


class Zygotes:
    """Processes that have imported the libraries and fork hosts."""

    def __init__(self, supervisor: Any) -> None:
        self._supervisor = supervisor
        # OpenCV takes its limit of pixels once, at its import; a venv that has changed must be imported anew
        self._known: Dict[Tuple[str, int, int], Tuple[int, socket.socket]] = {}

    def fork(self, settings: Dict[str, str], fds: List[int]) -> None:
        """Have a host forked, which gets these descriptors."""
        venv = settings.get("venv", "")
        key = venv, image_limits(settings).max_pixels, _state(venv)
        for _ in range(2):
            if key not in self._known:
                self._known[key] = self._make(*key)
            channel = self._known[key][1]
            try:
                socket.send_fds(channel, [b"host"], fds)
                return
            except OSError:  # it was killed
                self._drop(key)
        raise OSError(32, "the engine's zygote ends as soon as it has started")

    def _make(self, venv: str, max_pixels: int, state: int) -> Tuple[int, socket.socket]:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        parent = os.getpid()
        pid = os.fork()
        if pid == 0:
            _be_zygote(parent, theirs, venv, max_pixels)
        theirs.close()
        self._supervisor.watch(ours, lambda: self._drop((venv, max_pixels, state)))
        return pid, ours

    def _drop(self, key: Tuple[str, int, int]) -> None:
        """End a zygote. It says nothing: its channel is readable when it has ended already."""
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
        """End all, and with them the hosts and workers."""
        for key in list(self._known):
            self._drop(key)


def _state(venv: str) -> int:
    """Return when packages of a venv were installed last; 0 where there is none."""
    try:
        return os.stat(site_packages(venv, "%d.%d" % sys.version_info[:2])).st_mtime_ns
    except OSError:
        return 0


def _be_zygote(parent: int, channel: socket.socket, venv: str, max_pixels: int) -> None:
    """Be the child; never return."""
    try:
        kernel.die_with(parent)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        signal.signal(signal.SIGINT, signal.SIG_DFL)
        kernel.set_title("dbinfer-engine", "zygote of %s" % (venv or "no virtual environment"))
        from . import zygote

        zygote.run(channel, venv, max_pixels)
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
