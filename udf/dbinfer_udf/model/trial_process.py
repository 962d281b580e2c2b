"""The process in which a model is tried; it imports numpy and openvino from where its caller found them."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import glob
import json
import os
import resource
import signal
import sys
import time
from typing import Any, Dict, List, Optional, Tuple

from ..errors import ModelError
from ..host.libraries import leave_out
from ..host.sandbox import shut_in
from ..host.tokenizers import add_where_needed
from .device import CPU, Setup, new_core

PR_SET_PDEATHSIG = 1
# How OpenVINO says that it got no memory, or none for a thread
SHORT_OF_MEMORY = ("bad_alloc", "allocate", "can't alloc", "temporarily unavailable")
IMAGES = ("blank", "white", "random", "random", "random")
# Slower networks fill a core with one image, and a batch of them would take long; bytes that a batch may take
BATCH, BATCH_MILLISECONDS, BATCH_BYTES = 32, 20.0, 128 << 20
# For slower networks numbers of threads are tried downwards: many pay there, and each number compiles the network again
SLOW_MILLISECONDS = 10.0
# No further number of threads is tried after so many seconds, or as many as the trial had taken before
THREADS_SECONDS = 1.0
# How far a device may be off: by what f16 rounds, in which many compute; bf16 has three bits less
NEAR, NEAR_ZERO, COARSER = 1e-2, 1e-3, {"bf16": 8}
# If threads waited for cores longer than this share of their time, the host is too busy for a figure. A number of
# threads is tried again for so many seconds
BUSY, BUSY_SECONDS = 0.1, 0.3


def needs_too_much(memory: int) -> Tuple[str, str]:
    """Return what is said of a model beyond the limit of memory, and the name of its setting."""
    return "it needs more than %d MB of memory" % (memory >> 20), "max_model_mb"


def child(call: Dict[str, Any]) -> None:
    """Be the process that is tried: say each step as a line of JSON on standard output."""
    began = time.perf_counter()
    # as in a backend, see model._core
    os.environ["HWLOC_THISSYSTEM"] = "0"
    # before anything of the libraries or of the model is read
    _bound_itself(call["memory"])
    try:
        if call["guards"]:
            # before a library starts a thread
            shut_in(*call["guards"])
        found, request = _measure(call)
        _say(done=found)
        # whatever these give, the model has passed
        with contextlib.suppress(MemoryError, RuntimeError):
            _say(batch=_measure_batch(call, found[1]))
        with contextlib.suppress(MemoryError, RuntimeError):
            _measure_threads(call, request, found[1], time.perf_counter() - began)
    except MemoryError:
        _say(error=needs_too_much(call["memory"]))
    except ModelError as err:
        _say(error=[err.message])
    except OSError as err:
        # an import lists folders, and the kernel has no room for what it returns
        if err.errno != errno.ENOMEM:
            raise
        _say(error=needs_too_much(call["memory"]))
    except RuntimeError as err:
        lines = str(err).strip().splitlines() or [type(err).__name__]
        short = any(word in str(err) for word in SHORT_OF_MEMORY)
        _say(
            error=needs_too_much(call["memory"])
            if short
            else ["OpenVINO cannot run it: %s" % lines[-1].strip()]
        )


def _bound_itself(memory: int) -> None:
    """Let the kernel refuse or end what the watching process would notice too late, and die with that process."""
    if sys.platform == "linux":
        # a backend that is killed cannot end this process
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        # if memory runs out in spite of the limit, the kernel should end this process and no backend
        with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
            score.write("1000")
    # the mask is inherited, maybe from a backend that blocks signals
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    # a crash is an expected result, not worth a core file
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    # not RLIMIT_AS: threads and allocators reserve addresses that they never use
    resource.setrlimit(resource.RLIMIT_DATA, (memory, memory))


def _measure(call: Dict[str, Any]) -> Tuple[Tuple[float, float, int], Any]:
    leave_out()
    import numpy as np

    xml, sample, device = call["xml"], call["sample"], call["device"]
    core, clock = _core(xml), _clock_of(device)
    # the word of a device does not count: what it computes must be what the processor computes
    judge = None if device == CPU else _request(core, xml, dict(call, device=CPU, precision="f32"))
    started = time.perf_counter()
    request = _request(core, xml, call)
    compile_milliseconds = (time.perf_counter() - started) * 1e3
    _say(compiled=compile_milliseconds)
    tensor, random, taken = request.get_input_tensor(0).data, np.random.default_rng(0), []
    for kind in IMAGES:
        tensor[...] = {"blank": 0, "white": 255}.get(kind, random.integers(0, 256, tensor.shape, np.uint8))
        taken.append(_timed(request, clock))
        if judge is not None:
            judge.get_input_tensor(0).data[...] = tensor
            judge.infer()
            _require_same(device, call["precision"], request, judge)
    if sample is not None:
        taken += _write_outputs(request, np.load(sample[0], mmap_mode="r"), *sample[1:])
    # without the two first images, which warm up
    middle = sorted(taken[2:])[len(taken[2:]) // 2]
    return (round(compile_milliseconds, 1), round(middle, 3), _peak()), request


def _require_same(device: str, precision: str, request: Any, judge: Any) -> None:
    """Raise ModelError unless a device gives what f32 on the processor gives, in every output."""
    import numpy as np

    coarser = COARSER.get(precision, 1)
    for number, tensor in enumerate(judge.output_tensors):
        found, right = request.get_output_tensor(number).data, tensor.data
        if found.shape != right.shape:
            raise ModelError("%s gives an output of %s instead of %s" % (device, found.shape, right.shape))
        # false also of what is no number
        near = np.isclose(found, right, rtol=coarser * NEAR, atol=coarser * NEAR_ZERO)
        if not near.all():
            place = np.unravel_index(np.argmin(near), near.shape)
            raise ModelError(
                "%s gives %.4g where f32 on the processor gives %.4g" % (device, found[place], right[place])
            )


def _clock_of(device: str) -> Any:
    """Return what times an image: on a busy host the clock on the wall counts other programs, too.

    While another device computes, the processor rests.
    """
    return time.process_time if device == CPU else time.perf_counter


def _measure_batch(call: Dict[str, Any], milliseconds: float) -> Optional[float]:
    """Return the milliseconds of an image within a batch; None where batches are out of the question."""
    if milliseconds > BATCH_MILLISECONDS:
        return None
    import numpy as np

    xml, clock = call["xml"], _clock_of(call["device"])
    core, peak, taken = _core(xml), _peak(), []
    graph = core.read_model(xml)
    graph.reshape([BATCH, *list(graph.input(0).shape)[1:]])
    request = _request(core, graph, call)
    tensor = request.get_input_tensor(0).data
    tensor[...] = np.random.default_rng(0).integers(0, 256, tensor.shape, np.uint8)
    for _ in range(4):
        taken.append(_infer(request, clock))
    # the first one warms up
    return None if _peak() - peak > BATCH_BYTES else round(sorted(taken[1:])[1] / BATCH, 4)


def _measure_threads(call: Any, request: Any, milliseconds: float, seconds: float) -> None:
    """Say what an image takes with more threads, until more of them pay no longer, or as long again has passed.

    One thread is timed by the processor, several by the clock on the wall: what else runs on the host can only make
    several look worse than they are, never better.
    """
    slow = milliseconds >= SLOW_MILLISECONDS
    # three fast images say little
    alone = milliseconds if slow else _median(request, time.process_time)
    until = time.perf_counter() + max(THREADS_SECONDS, seconds)
    for number in sorted(call["threads"], reverse=slow):
        if time.perf_counter() > until:
            break
        several = _request(_core(call["xml"]), call["xml"], call, number)
        together, busy = _time_together(several, number)
        _say(threads=number, alone=alone, together=together, busy=busy)
        if (not busy and alone >= call["pays"] * number * together) == slow:
            break


def _time_together(request: Any, number: int) -> Tuple[float, bool]:
    """Return the milliseconds of an image with several threads, and whether these had to wait for cores."""
    until = time.perf_counter() + BUSY_SECONDS
    while True:
        waited, began = _waited_for_cores(), time.perf_counter()
        milliseconds, now = _median(request, time.perf_counter), time.perf_counter()
        busy = _waited_for_cores() - waited > BUSY * number * (now - began)
        if not busy or now > until:
            return milliseconds, busy


def _median(request: Any, clock: Any) -> float:
    """Return the milliseconds of an image: of three that take long, or of as many as make a twentieth of a second."""
    taken: List[float] = []
    request.infer()
    while len(taken) < 3 or (len(taken) < 300 and sum(taken) < 50):
        started = clock()
        request.infer()
        taken.append((clock() - started) * 1e3)
    return round(sorted(taken)[len(taken) // 2], 4)


def _waited_for_cores() -> float:
    """Return the seconds for which this process's threads were ready and had no core; 0 where nobody counts them."""
    total = 0
    for path in glob.glob("/proc/self/task/*/schedstat"):
        with contextlib.suppress(OSError, IndexError, ValueError), open(path) as numbers:
            total += int(numbers.read().split()[1])
    return total / 1e9


def _core(xml: str) -> Any:
    import openvino

    core = new_core(openvino)
    add_where_needed(openvino, core, xml)
    return core


def _request(core: Any, source: Any, call: Dict[str, Any], threads: int = 1) -> Any:
    # max_inference_seconds is meant for one thread, whatever backends use
    config = Setup(call["precision"], call["device"], threads).config()
    return core.compile_model(source, call["device"], config).create_infer_request()


def _timed(request: Any, clock: Any = time.process_time) -> float:
    """Run one image; return its milliseconds, and say them."""
    taken = _infer(request, clock)
    _say(image=taken)
    return taken


def _infer(request: Any, clock: Any) -> float:
    started = clock()
    request.infer()
    return float(clock() - started) * 1e3


def _write_outputs(request: Any, images: Any, path: str, seconds: float) -> List[float]:
    """Write the first output of each image, until the time is over, and the milliseconds; return these."""
    tensor, output, taken = request.get_input_tensor(0).data, request.get_output_tensor(0).data, []
    with open(path, "wb") as outputs:
        for image in images:
            tensor[0] = image
            taken.append(_timed(request))
            outputs.write(output.tobytes())
            if sum(taken) > seconds * 1e3:
                break
    with open(path + ".json", "w") as file:
        json.dump(taken, file)
    return taken


def _peak() -> int:
    """Return the largest resident memory of this process in bytes."""
    # Linux counts in getrusage what the parent had when it forked
    if sys.platform != "linux":
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) * 1024


def _say(**step: Any) -> None:
    sys.stdout.write(json.dumps(step) + "\n")
    # the watcher counts the time of each step from the line before
    sys.stdout.flush()
