"""A process that has imported numpy, OpenCV and OpenVINO, has no threads, and forks the hosts of models."""

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
from typing import Any, List, Optional

from ..errors import EngineError
from ..host import libraries, protocol, sandbox

MOST_FDS = 4


def run(channel: socket.socket, venv: str, max_pixels: int) -> None:
    """Import the libraries, then fork a host for each message; end with the channel."""
    sandbox.close_all_but([channel.fileno()])
    # the kernel reaps the hosts: the supervisor sees the end of each at its channel
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    # Python warns of threads at a fork; those of OpenVINO sleep, and a child never needs them
    warnings.simplefilter("ignore")
    sandbox.more_likely_victim()
    # no network; where the kernel has no such filter, hosts say so
    with contextlib.suppress(OSError):
        sandbox.forbid()
    failed = _import(venv, max_pixels)
    # a collection in a host would write to all that it shares with this process
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
                _be_host(fds)
        except OSError as err:  # too many processes, or no memory: the hosts that are there go on
            _refuse(os.dup(fds[0]), EngineError("the engine cannot start a process: %s" % err.strerror))
        for fd in fds:
            os.close(fd)


def _import(venv: str, max_pixels: int) -> Optional[Exception]:
    try:
        libraries.load(venv, max_pixels)
        # what a host needs, so that each finds it imported
        from . import host  # noqa: F401 - with all that imports the libraries, which the venv has from here on
    except Exception as err:
        return err
    return None


def _refuse(fd: int, failed: Exception) -> None:
    with socket.socket(fileno=fd) as channel, contextlib.suppress(OSError):
        channel.send(json.dumps({"error": protocol.describe(failed)}).encode())


def _be_host(fds: List[int]) -> None:
    """Be the child; never return."""
    from .host import Host

    try:
        parent = os.getppid()
        sandbox.close_all_but(fds)
        sandbox.die_with(parent)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        channel, listener, memory, call = fds
        with os.fdopen(call) as source:
            wanted: Any = json.load(source)
        Host(socket.socket(fileno=channel), socket.socket(fileno=listener), memory, wanted).run()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(1)
