"""The engine's first process: it leaves its starter and supervises, in a loop over descriptors and signals that answers
the control socket, keeps models, and ends when nobody needs it.

Standard library only; no image and no model file passes through it.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import select
import selectors
import signal
import socket
import sys
import time
import traceback
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..errors import EngineError, UdfError
from ..host import limits, protocol, sandbox
from ..host.process import birth
from ..host.protocol import harmless_text as harmless
from ..host.sandbox import guards, missing_guards
from . import address, slots
from .address import Address
from .served import listen_at
from .shelf import Shelf, memory_of

MOST_BYTES = 1 << 20  # then the file becomes FILE.1, and what was FILE.1 goes
MOST_LINE = 2000


class Log:
    """Writes lines to a file, if that is possible; a full disk stops nobody.

    Args:
        path: of the file; "" for none. One that ends in .json gets objects with names of PostgreSQL's jsonlog.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._rest = b""

    def say(self, text: str) -> None:
        """Write one line, with the time."""
        moment, text = time.strftime("%Y-%m-%d %H:%M:%S %Z"), harmless(text[:MOST_LINE])
        if self.path.endswith(".json"):
            line = json.dumps(
                {"timestamp": moment, "pid": os.getpid(), "backend_type": "dbinfer engine", "message": text}
            )
        else:
            line = "%s  %s" % (moment, text)
        self._write(line + "\n")

    def take(self, block: bytes) -> None:
        """Take what one of our processes printed, and write its complete lines."""
        *lines, self._rest = (self._rest + block).split(b"\n")
        # a line without end is cut
        if len(self._rest) > MOST_LINE:
            lines, self._rest = [*lines, self._rest], b""
        for line in lines:
            if line.strip():
                self.say(line.decode(errors="replace").rstrip())

    def _write(self, line: str) -> None:
        with contextlib.suppress(OSError):
            if self.path:
                flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
                # opened anew for each line, because somebody may tidy up the folder
                fd = os.open(self.path, flags, 0o600)
                try:
                    os.write(fd, line.encode(errors="replace"))
                    size = os.fstat(fd).st_size
                finally:
                    os.close(fd)
                if size > MOST_BYTES:
                    os.replace(self.path, self.path + ".1")


class Loop:
    """Calls what watches a descriptor whenever there is something to read.

    Attributes:
        told: whether SIGTERM or SIGINT came.
    """

    def __init__(self, log: Log) -> None:
        self.told = False
        self._log = log
        self._selector = selectors.DefaultSelector()

    def watch(self, fd: Any, then: Callable[[], Any]) -> None:
        """Call `then` whenever there is something to read."""
        self._selector.register(fd, selectors.EVENT_READ, then)

    def forget(self, fd: Any) -> None:
        """Stop watching a descriptor."""
        with contextlib.suppress(KeyError, ValueError):
            self._selector.unregister(fd)

    def hear_signals(self) -> None:
        """Note SIGTERM and SIGINT, to be acted upon between two turns."""

        def tell(*_: Any) -> None:
            self.told = True

        wakes, wake = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
        self.watch(wakes, lambda: os.read(wakes, 4096))
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, tell)

    def own_output(self, with_standard_output: bool) -> None:
        """Send what this process and its children print to the log, and read nothing."""
        out, into = os.pipe()
        nothing = os.open("/dev/null", os.O_RDONLY)
        os.dup2(nothing, 0)
        if with_standard_output:
            os.dup2(into, 1)
        os.dup2(into, 2)
        os.close(into)
        os.close(nothing)
        self.watch(out, lambda: self._log.take(os.read(out, 65536)))

    def turn(self, seconds: float) -> None:
        """Wait so many seconds at most, and call what watches a readable descriptor."""
        for found, _ in self._selector.select(seconds):
            try:
                found.data()
            except Exception:
                # a bug must not end what others use
                self._log.say("Unexpected: %s" % traceback.format_exc())


class Servers:
    """The database servers that use this engine, each by pid and birth."""

    def __init__(self) -> None:
        # pid: its birth, and a descriptor that becomes readable when it ends (-1: the kernel or the sandbox has none)
        self.known: Dict[int, Tuple[str, int]] = {}

    def add(self, pid: int) -> None:
        """Watch one more server, unless it is watched already or has ended."""
        born = birth(pid)
        if not born or self.known.get(pid, ("", 0))[0] == born:
            return
        self._drop(pid)
        fd = -1
        with contextlib.suppress(OSError, AttributeError):
            fd = os.pidfd_open(pid)
        self.known[pid] = born, fd

    def fds(self) -> Dict[int, int]:
        """Return the descriptors to wait for, each with the pid of its server."""
        return {fd: pid for pid, (_, fd) in self.known.items() if fd >= 0}

    def look(self) -> bool:
        """Forget those that have ended; return whether any lives."""
        for pid, (born, fd) in list(self.known.items()):
            ended = bool(select.select([fd], [], [], 0)[0]) if fd >= 0 else birth(pid) != born
            if ended:
                self._drop(pid)
        return bool(self.known)

    def _drop(self, pid: int) -> None:
        _, fd = self.known.pop(pid, ("", -1))
        if fd >= 0:
            os.close(fd)


MESSAGE_SECONDS = 5.0  # until a question must be complete
MOST_MESSAGE = 64 << 20


class Question:
    """One connection to the control socket."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.data = b""
        self.until = time.monotonic() + MESSAGE_SECONDS

    def given_up(self) -> bool:
        """Return whether the asker has gone: its statement was cancelled, for example."""
        return sandbox.hung_up(self.connection.fileno())

    def answer(self, message: Dict[str, Any]) -> None:
        """Send the answer and close; an asker that has gone gets none."""
        with contextlib.suppress(OSError):
            self.connection.settimeout(1.0)
            self.connection.sendall(protocol.frame(message))
        self.close()

    def close(self) -> None:
        """Close the connection."""
        self.connection.close()


class Questions:
    """The questions that are not yet complete.

    Args:
        supervisor: whose loop watches them.
        listener: the control socket.
        reply: takes a question and its message.
    """

    def __init__(
        self, supervisor: Any, listener: socket.socket, reply: Callable[[Question, Dict[str, Any]], None]
    ) -> None:
        self._supervisor, self._listener, self._reply = supervisor, listener, reply
        self._open: List[Question] = []
        listener.setblocking(False)
        supervisor.watch(listener, self._accept)

    def stop(self) -> None:
        """Accept no more."""
        self._supervisor.forget(self._listener)
        self._listener.close()

    def tick(self) -> None:
        """Drop questions that take too long."""
        now = time.monotonic()
        for question in [one for one in self._open if now > one.until]:
            self._drop(question)

    def _accept(self) -> None:
        with contextlib.suppress(BlockingIOError):
            connection = self._listener.accept()[0]
            if protocol.peer(connection)[1] != os.geteuid():
                connection.close()
                return
            connection.setblocking(False)
            question = Question(connection)
            self._open.append(question)
            self._supervisor.watch(connection, lambda: self._read(question))

    def _read(self, question: Question) -> None:
        try:
            block = question.connection.recv(1 << 20)
            question.data += block
            message = protocol.unframe(question.data)
        except BlockingIOError:
            return
        except (OSError, ValueError, protocol.ClosedError):
            self._drop(question)
            return
        if message is not None:
            self._supervisor.forget(question.connection)
            self._open.remove(question)
            self._reply(question, message)
        elif not block or len(question.data) > MOST_MESSAGE:
            self._drop(question)

    def _drop(self, question: Question) -> None:
        self._open.remove(question)
        self._supervisor.forget(question.connection)
        question.close()


TICK = 1.0  # seconds
IDLE_SECONDS = 600


class Supervisor:
    """The engine's first process; see docs/explanation/design.md.

    Args:
        call: what client.call_of made.
        listener: the control socket.
    """

    def __init__(self, call: Dict[str, Any], place: Address, listener: socket.socket, log: Log) -> None:
        self.call = call
        self.place = place
        self.log = log
        # the latest: a changed setting holds from the next model that is opened
        self.settings: Dict[str, str] = call["settings"]
        self.service = not call["server"]
        self.began = time.time()
        self.servers = Servers()
        self.ending = False
        self._loop = Loop(log)
        self.watch, self.forget = self._loop.watch, self._loop.forget
        self.own_output = self._loop.own_output
        self._questions = Questions(self, listener, self._reply)
        self._pidfds: Dict[int, int] = {}
        self._last_sign = time.monotonic()
        self.cores = limits.cores()
        self._guards = guards()
        self._semaphore = slots.make_permits(slots.semaphore_key(place.control), self.cores)
        self.shelf = Shelf(self, self._semaphore)

    def run(self, lock: int) -> None:
        """Work until nobody needs the engine, or it is told to end."""
        self._loop.hear_signals()
        self._attach(self.call["server"])
        self.log.say(
            "Engine %s starts with %d cores, process %d." % (self.place.digest, limits.cores(), os.getpid())
        )
        if missing_guards(self._guards):
            self.log.say(missing_guards(self._guards))
        try:
            while not self.ending:
                self._step()
            os.close(lock)
            self.shelf.drain(self._step)
        finally:
            self.shelf.kill()
            slots.remove_permits(self._semaphore)
            self.log.say("Engine %s has ended." % self.place.digest)

    def _step(self) -> None:
        self._loop.turn(TICK / 10 if self.shelf.hurry else TICK)
        if self._loop.told:
            self.finish("Told to stop, by a signal.")
        self.shelf.tick()
        now = time.monotonic()
        self._questions.tick()
        alive = self.servers.look()
        self._watch_servers()
        if self.service:
            return
        if not alive:
            self.shelf.kill()
            self.finish("The server has ended.")
        elif now - self._last_sign > self._idle_seconds() and not self.shelf.busy():
            self.finish("Nobody has asked for %d seconds." % self._idle_seconds())

    def _idle_seconds(self) -> float:
        return float(self.settings.get("engine_idle_seconds", IDLE_SECONDS))

    def sign_of_life(self) -> None:
        """Note that somebody uses the engine."""
        self._last_sign = time.monotonic()

    def finish(self, why: str) -> None:
        """Accept no more, and let what runs end. `why` is for the log, and is written once."""
        if not self.ending:
            self.log.say(why)
            self.ending = True
            self._questions.stop()
            with contextlib.suppress(OSError):
                os.unlink(self.place.control)
            self.shelf.finish()

    def _attach(self, server: int) -> None:
        if server:
            self.servers.add(server)
        self._watch_servers()

    def _watch_servers(self) -> None:
        for fd in self._pidfds.keys() - self.servers.fds().keys():
            self.forget(fd)
        for fd in self.servers.fds().keys() - self._pidfds.keys():
            # the end of the server wakes the loop, which looks
            self.watch(fd, lambda: None)
        self._pidfds = self.servers.fds()

    def _reply(self, question: Question, message: Dict[str, Any]) -> None:
        answers: Dict[str, Tuple[Callable[..., Any], Tuple[Any, ...]]] = {
            "open": (self._open, (question, message)),
            "verdict": (self.shelf.verdict, (question, message)),
            "cancel": (self.shelf.cancel, (question, message)),
            "release": (self.shelf.release, (question, message)),
            "status": (lambda: question.answer(self.facts()), ()),
            "stop": (self._stop, (question,)),
            "hello": (lambda: question.answer({}), ()),
        }
        found = answers.get(str(message.get("op")))
        # a question that was accepted before the end: what is opened now would lie where the next engine's models lie.
        # Who gets no answer asks the next engine
        if found is None or (self.ending and message["op"] in ("open", "hello")):
            question.close()
            return
        try:
            found[0](*found[1])
        except Exception as err:
            # a bug here must not end what others use
            if not isinstance(err, UdfError):
                self.log.say("Cannot answer %r: %s" % (message.get("op"), traceback.format_exc()))
            if isinstance(err, OSError):
                err = EngineError("the engine cannot load the model: %s" % err.strerror)
            question.answer({"error": protocol.describe_error(err)})

    def _open(self, question: Question, message: Dict[str, Any]) -> None:
        self.sign_of_life()
        theirs, ours = message.pop("python"), list(sys.version_info[:2])
        if theirs != ours:
            # another server of this user: its packages cannot be imported here
            raise EngineError("the engine runs Python %d.%d, this server %d.%d" % (*ours, *theirs))
        self._attach(message.pop("server"))
        self.settings = {**self.settings, **message["spec"]["settings"]}
        self.shelf.open(question, message)

    def _stop(self, question: Question) -> None:
        self.finish("Told to stop.")
        question.answer({})

    def facts(self) -> Dict[str, Any]:
        """Return what `dbinfer engine status` shows."""
        return {
            "pid": os.getpid(),
            "host": socket.gethostname(),
            "digest": self.place.digest,
            "uptime": round(time.time() - self.began, 1),
            "service": self.service,
            "sandbox": self._guards,
            "servers": sorted(self.servers.known),
            "cores": limits.cores(),
            "log": self.log.path,
            "models": self.shelf.facts(),
            # of this process and the zygotes, which belong to no model
            "own_bytes": memory_of(os.getpid()),
            "problem": "" if self._semaphore >= 0 else "no semaphores: threads may exceed the cores",
        }


LOCK_WAIT, MOST_WAITS = 0.05, 400


def be_engine(call: Dict[str, Any]) -> None:
    """Be the engine; `call` is what client.call_of made."""
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
            # it is just starting or ending
            time.sleep(LOCK_WAIT)
    os.close(lock)
    return None


def _listens(place: Address) -> bool:
    try:
        address.call(place.control, {"op": "hello"}, 1.0)
    except (address.GoneError, UdfError):
        return False
    return True


def _be_supervisor(call: Dict[str, Any], place: Address, lock: int) -> None:
    listener = listen_at(place.control)
    log = Log(call["settings"].get("engine_log") or place.log)
    supervisor = Supervisor(call, place, listener, log)
    _say("ready")
    supervisor.own_output(not supervisor.service)
    supervisor.run(lock)


def _say(text: str) -> None:
    # the starter may be gone
    try:
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
    except OSError:
        pass
