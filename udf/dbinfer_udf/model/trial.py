"""Tries a model before it is trusted: a process of its own compiles it and runs images, within limits.

OpenVINO cannot be interrupted, and a model file can make it work for years, take all memory or crash. So a process that
can be killed goes first. The same program serves `dbinfer deploy` on the client and the first use in a backend.

It runs blank, white and random images; a model that is slow only for a special image is not found out.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import subprocess
import time
from dataclasses import dataclass, field, replace
from typing import Any, Callable, Dict, List, NamedTuple, Optional, Sequence

from ..host import own_python
from ..host.cache import is_time
from ..host.limits import PAYS, fitting
from ..host.protocol import ClosedError, bounded, harmless_text
from ..tasks import pays
from . import trial_process
from .device import Guards, Setup


class Limits(NamedTuple):
    """What a model may take.

    Attributes:
        start_seconds: until it is compiled; includes the start of Python and the import of OpenVINO.
        image_seconds: for one image, with one thread.
        memory_bytes: of the whole process.
    """

    start_seconds: float = 120.0
    image_seconds: float = 30.0
    memory_bytes: int = 4 << 30

    @classmethod
    def from_settings(cls, settings: Dict[str, str]) -> Limits:
        """Return the limits that the settings of the database name; those that they do not name are the defaults."""
        return cls(
            float(settings.get("max_compile_seconds", cls().start_seconds)),
            float(settings.get("max_inference_seconds", cls().image_seconds)),
            int(settings.get("max_model_mb", cls().memory_bytes >> 20)) << 20,
        )


@dataclass(frozen=True)
class Result:
    """What a model took.

    Attributes:
        compile_milliseconds: to compile it.
        milliseconds: processor time of an image with one thread, the median.
        peak_bytes: largest resident memory of the process, before it tried a batch.
        batch_milliseconds: that within a batch of 32; None where the network takes none, or too much for one.
        by_threads: milliseconds of an image by number of threads, 1 among them; empty where no more than 1 was tried.
        busy: a number of threads is missing there because they did not get their cores.
    """

    compile_milliseconds: float
    milliseconds: float
    peak_bytes: int
    batch_milliseconds: Optional[float] = None
    by_threads: Dict[str, float] = field(default_factory=dict)
    busy: bool = False

    @property
    def pays(self) -> bool:
        """Whether tables are scored in batches, by these figures."""
        return pays(self.milliseconds, self.batch_milliseconds)

    @property
    def threads(self) -> int:
        """How many threads pay on this host; with as many, an image takes `by_threads[str(threads)]`."""
        return fitting(max(map(int, self.by_threads), default=1), self.by_threads)


class Sample(NamedTuple):
    """Images that a trial runs beside its own, for those who want to see what comes out.

    Attributes:
        images: a file of numpy's with uint8 (n, height, width, channels), as the network takes them.
        outputs: the file that gets the first output of each, float32, one behind the other; beside it, as .json, one
            with the milliseconds of each.
        seconds: after which no further image is begun.
    """

    images: str
    outputs: str
    seconds: float


POLL = 0.05  # seconds between two looks at the memory
# Each line that the process writes gives it new time: images, a batch, numbers of threads, each image of a sample
MOST_LINES, MOST_SAMPLES = 50, 100_000
# The names that a line may have, and what is believed of each
SAID: Dict[str, Callable[[Any], bool]] = {
    "compiled": is_time,
    "image": is_time,
    "done": lambda value: isinstance(value, list) and len(value) == 3 and all(map(is_time, value)),
    "batch": lambda value: value is None or is_time(value),
    "threads": lambda value: isinstance(value, int) and value > 0,
    "alone": is_time,
    "together": is_time,
    "busy": lambda value: isinstance(value, bool),
    "error": lambda value: (
        isinstance(value, list) and value[1:] in ([], ["max_model_mb"]) and type(value[0]) is str
    ),
}
OF_THREADS = {"threads", "alone", "together", "busy"}


class TrialError(Exception):
    """A model that failed; the message is a clause such as `one image took more than 30 s`.

    Args:
        setting: the setting that would allow it, or "".
        lasting: it is the model's fault, so trying again would give the same.
    """

    def __init__(self, message: str, setting: str = "", lasting: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.setting = setting
        self.lasting = lasting


class AbandonedError(Exception):
    """The trial was ended because nobody waits for it any more; nothing is known of the model."""


def run_trial(
    python: str,
    xml: str,
    setup: Setup,
    limits: Limits,
    threads: Sequence[int] = (),
    stop: Callable[[], bool] = bool,
    sample: Optional[Sample] = None,
    guards: Optional[Guards] = None,
) -> Result:
    """Try the prepared model `xml` (with the .bin beside it) in a process of its own.

    Args:
        python: the interpreter; numpy and openvino are found where this process finds them.
        setup: as backends compile it; what another device than the processor computes is compared with f32 there.
        threads: numbers of threads to try beside one; see limits.threads_to_try.
        stop: is asked many times a second whether to give up.
        sample: images to run as well; they count in the median.
        guards: what alone the process may read and write, see device.guards; None: whatever this user may.

    Raises:
        TrialError: it cannot be compiled, crashes, differs, or takes more time or memory than the limits allow.
        AbandonedError: `stop` said so.
    """
    call = {
        "xml": xml,
        "precision": setup.precision,
        "memory": limits.memory_bytes,
        "sample": sample,
        "threads": list(threads),
        "pays": PAYS,
        "guards": guards,
        "device": setup.device,
    }
    pipe = subprocess.PIPE
    try:
        # A session of its own: Ctrl-C at the terminal ends the command, which then ends this
        program = own_python.program_of("model.trial_process", call)
        process = own_python.start_python(python, program, stdout=pipe, stderr=pipe, start_new_session=True)
    except OSError as err:
        message = "the Python that tries it, %s, cannot be started: %s" % (python, err.strerror)
        raise TrialError(message, lasting=False) from err
    try:
        return _Watch(process, limits, stop, MOST_SAMPLES if sample else MOST_LINES).result()
    finally:
        process.kill()
        process.wait()  # a backend must not collect zombies
        process.stdout.close()
        process.stderr.close()


class _Watch:
    """Reads what the process says, and ends it when it goes beyond a limit."""

    def __init__(
        self, process: Any, limits: Limits, stop: Callable[[], bool], most: int = MOST_LINES
    ) -> None:
        self.process, self.limits, self.stop, self.most = process, limits, stop, most
        self.said: List[Dict[str, Any]] = []
        self.text = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}

    def result(self) -> Result:
        """Return what the process found; TrialError where it failed or was ended."""
        try:
            self._run()
        except TrialError:
            # a batch, or more threads, beyond a limit say nothing against the model
            if not any("done" in line for line in self.said):
                raise
        for line in self.said:
            if "done" in line:
                return replace(Result(*line["done"]), **self._beyond())
            if "error" in line:
                raise TrialError(*line["error"])
        raise self._death()

    def _beyond(self) -> Dict[str, Any]:
        """Return what was found after the model had passed, as far as the process got."""
        found: Dict[str, Any] = {"by_threads": {}}
        for line in self.said:
            if "batch" in line:
                found["batch_milliseconds"] = line["batch"]
            elif line.get("busy"):
                found["busy"] = True
            elif "threads" in line:
                found["by_threads"].update({"1": line["alone"], str(line["threads"]): line["together"]})
        return found

    def _run(self) -> None:
        begun, open_pipes = time.monotonic(), set(self.text)
        while open_pipes:
            for pipe in select.select(list(open_pipes), [], [], POLL)[0]:
                block = os.read(pipe, 65536)
                self.text[pipe] = (self.text[pipe] + block)[-(1 << 20) :]  # what is tried may print on and on
                if not block:
                    open_pipes.remove(pipe)
            if self._read_lines():
                begun = time.monotonic()  # each step has the whole time for itself
            self._check(time.monotonic() - begun)
        self.process.wait()

    def _read_lines(self) -> bool:
        """Take the whole lines that came; return whether there were any."""
        out = self.process.stdout.fileno()
        *lines, self.text[out] = self.text[out].split(b"\n")
        self.said += map(_said, lines)
        if len(self.said) > self.most:
            raise _senseless()
        return bool(lines)

    def _check(self, seconds: float) -> None:
        if self.stop():
            raise AbandonedError
        if any("compiled" in line for line in self.said):
            what, limit, setting = "one image", self.limits.image_seconds, "max_inference_seconds"
        else:
            what, limit, setting = "compiling it", self.limits.start_seconds, "max_compile_seconds"
        if seconds > limit:
            raise TrialError("%s took more than %g s" % (what, limit), setting)
        if _resident(self.process.pid) > self.limits.memory_bytes:
            raise TrialError(*trial_process.needs_too_much(self.limits.memory_bytes))

    def _death(self) -> TrialError:
        """Return why the process ended without a result."""
        step = "it ran an image" if self.said else "it was compiled"
        code = self.process.returncode
        if code < 0:
            return TrialError("OpenVINO crashed (%s) while %s" % (signal.Signals(-code).name, step))
        lines = harmless_text(
            self.text[self.process.stderr.fileno()].decode(errors="replace").strip()
        ).splitlines()
        # Python itself failed, for example because a package is missing
        last = lines[-1] if lines else "exit status %d" % code
        return TrialError("its trial failed while %s: %s" % (step, last), lasting=False)


def _said(line: bytes) -> Dict[str, Any]:
    """Return what a line of the process says; a model that has taken it over may say what it likes.

    Raises:
        TrialError: it is none of what trial_process says.
    """
    try:
        said = bounded(json.loads(line))
        sound = all(SAID[name](value) for name, value in said.items()) and (
            OF_THREADS.isdisjoint(said) or set(said) >= OF_THREADS
        )
    except (ValueError, KeyError, IndexError, AttributeError, RecursionError, ClosedError):
        sound = False
    if not sound:
        raise _senseless()
    found: Dict[str, Any] = said
    return found


def _senseless() -> TrialError:
    return TrialError("the process that tried it said what makes no sense")


def _resident(pid: int) -> int:
    """Return the resident memory of a process in bytes; 0 where it has ended."""
    try:
        with open("/proc/%d/statm" % pid) as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()
    except (OSError, IndexError, ValueError):
        return 0
