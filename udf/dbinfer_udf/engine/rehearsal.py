"""Tries, before the first worker serves, whether a forked process can run the compiled network, and how far shut in.

OpenVINO does not promise that a forked child can use what its parent compiled. Where it cannot, each worker compiles.
"""

from __future__ import annotations

import json
import os
import signal
from functools import partial
from typing import Any, Callable, Dict, Optional

from . import wire, worker

SECONDS = 10.0


def rehearse(model: Any, wanted: Dict[str, Any], seconds: float) -> Optional[Dict[str, Any]]:
    """Return what the kernel grants a worker; None where a forked worker cannot run the network.

    Args:
        wanted: what the model was opened with.
        seconds: that an inference may take.
    """
    tries = (_try(partial(run, model, wanted, filters), seconds) for filters in worker.FILTERS)
    return next((found for found in tries if found is not None), None)


def run(model: Any, wanted: Dict[str, Any], filters: str) -> Dict[str, Any]:
    """Shut this process in and run the network, alone and for a batch; return what the kernel granted."""
    found = worker.shut_in(wanted["semaphore"], filters)
    for network in (model.compiled, model.batch_network(wanted["rows"])):
        network.input.fill(0)
        network.infer()
    return found


def _try(act: Callable[[], Dict[str, Any]], seconds: float) -> Optional[Dict[str, Any]]:
    out, into = os.pipe()
    pid = os.fork()
    if pid == 0:
        _be_tried(act, seconds, into)
    os.close(into)
    with os.fdopen(out) as said:
        text = said.read()
    _, status = os.waitpid(pid, 0)
    try:
        found = wire.bounded(json.loads(text)) if status == 0 else None
    except (ValueError, RecursionError, wire.ClosedError):
        return None
    # what it says of its guards is shown; which filter the workers get may only be one of ours
    return found if isinstance(found, dict) and found.get("filter") in worker.FILTERS else None


def _be_tried(act: Callable[[], Dict[str, Any]], seconds: float, into: int) -> None:
    """Be the child; never return."""
    try:
        signal.signal(signal.SIGALRM, signal.SIG_DFL)
        signal.setitimer(signal.ITIMER_REAL, seconds + SECONDS)
        os.write(into, json.dumps(act()).encode())
        os._exit(0)
    finally:
        os._exit(1)
