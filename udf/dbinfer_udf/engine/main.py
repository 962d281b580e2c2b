"""Where the engine's process begins: it leaves its starter, takes the lock, listens, says `ready` and supervises."""

from __future__ import annotations

import fcntl
import os
import signal
import sys
import time
from typing import Any, Dict, Optional

from ..errors import UdfError
from ..host import sandbox
from . import address
from .address import Address
from .hosted import listen
from .supervisor import Log, Supervisor

WAIT, MOST_WAITS = 0.05, 400


def run(call: Dict[str, Any]) -> None:
    """Be the engine; `call` is what start.call_of made."""
    # a service stays where its supervisor (systemd, a container) watches it
    if call["server"] and os.fork():
        os._exit(0)
    _leave_all_behind()
    try:
        place = address.find(call["settings"], call["digest"])
        lock = _take_lock(place)
        if lock is not None:
            _be_supervisor(call, place, lock)
        elif not call["server"]:
            raise UdfError("another engine runs already, in %s" % place.folder)
        else:
            _say("ready")
    except (UdfError, OSError) as err:
        _say(getattr(err, "message", "") or str(err))
        os._exit(1)
    os._exit(0)


def _leave_all_behind() -> None:
    """Keep nothing that a backend had set: signals, masks, the working directory."""
    os.chdir("/")
    os.umask(0o077)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGALRM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    sandbox.no_new_privileges()
    sandbox.set_title("dbinfer-engine")


def _take_lock(place: Address) -> Optional[int]:
    """Return the lock's descriptor; None where another engine listens."""
    lock = os.open(place.lock, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    for _ in range(MOST_WAITS):
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return lock
        except BlockingIOError:
            if _listens(place):
                break
            # it starts or ends just now
            time.sleep(WAIT)
    os.close(lock)
    return None


def _listens(place: Address) -> bool:
    try:
        address.call(place.control, {"op": "hello"}, 1.0)
    except (address.GoneError, UdfError):
        return False
    return True


def _be_supervisor(call: Dict[str, Any], place: Address, lock: int) -> None:
    listener = listen(place.control)
    log = Log(call["settings"].get("engine_log") or place.log)
    supervisor = Supervisor(call, place, listener, log)
    _say("ready")
    supervisor.own_output(not supervisor.service)
    supervisor.run(lock)


def _say(text: str) -> None:
    # the starter may have gone
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        pass
