"""Which of OpenVINO's devices computes on this host, and what each is told."""

from __future__ import annotations

import os
import re
from typing import Any, Dict, NamedTuple, Sequence, Tuple

Guards = Tuple[Sequence[str], Sequence[str], bool]
CPU = "CPU"
# The kernel's devices of graphics and of neural processors, and where their drivers are described
DRIVERS, DESCRIBED = ("/dev/dri", "/dev/accel"), ("/sys", "/etc/OpenCL")
# Names that alone mean the processor
ON_CPU = re.compile(r"CPU|(AUTO|HETERO|MULTI|BATCH):CPU(\(\d+\))?")


def new_core(openvino: Any) -> Any:
    """Return a core of OpenVINO that computes in f32 what is to be computed in f32.

    On an Arm processor with bf16 its plugin computes transposed convolutions in bf16, whatever precision is asked for,
    unless it hears otherwise before anything else: what it once allowed, no later hint takes back (OpenVINO 2026.4). A
    U-Net's answers were off by 5e-4.
    """
    core = openvino.Core()
    if os.uname().machine == "aarch64":
        core.set_property(CPU, {"EXECUTION_MODE_HINT": "ACCURACY"})
    return core


def wanted(settings: Dict[str, str]) -> str:
    """Return the device that the setting names for this host: `GPU`, or with a host before it, `sdw3=GPU`."""
    words = [word.rpartition("=") for word in settings.get("device", CPU).split()]
    found = {host: device for host, _, device in words}
    return found.get(os.uname().nodename, found.get("", CPU))


def used(settings: Dict[str, str], tried: Dict[str, Any]) -> str:
    """Return the device that a model takes here: the wanted one, if it passed its trial there.

    Args:
        tried: the outcome of the trial, see tried.
    """
    device = wanted(settings)
    return device if tried.get("device") == device else CPU


def guards(device: str, readable: Sequence[str], writable: Sequence[str]) -> Guards:
    """Return what a process may read and write that computes on a device, and whether it may command drivers."""
    if not commands_drivers(device):
        return readable, writable, False
    return [*readable, *DESCRIBED], [*writable, *DRIVERS], True


def commands_drivers(device: str) -> bool:
    """Return whether a network runs there by commands to a driver of the kernel."""
    return not ON_CPU.fullmatch(device)


class Setup(NamedTuple):
    """What a network is compiled for.

    Attributes:
        precision: of the version.
        device: OpenVINO's name.
        threads: of an inference, where the processor computes.
    """

    precision: str
    device: str = CPU
    threads: int = 1

    def config(self, version: str = "") -> Dict[str, Any]:
        """Return what OpenVINO is told; without its version, what it is told for a model that goes into no cache."""
        config: Dict[str, Any] = {
            "INFERENCE_PRECISION_HINT": _precision_on(self.device, self.precision),
            "INFERENCE_NUM_THREADS": self.threads,
            # segments and parallel workers are the streams; pinning put two of them on one core
            "NUM_STREAMS": 1,
            "ENABLE_CPU_PINNING": False,
        }
        # 2025.3, the last OpenVINO for Python 3.9, refuses a choice that it does not know
        if version >= "2026":
            # a blob without weights (3 kB, not 16 MB): these stay in model.bin, which all processes map
            config["CACHE_MODE"] = "OPTIMIZE_SIZE"
        if self.device == CPU:
            return config
        hint = "INFERENCE_PRECISION_HINT"
        found: Dict[str, Any] = {hint: config[hint], "DEVICE_PROPERTIES": {CPU: config}}
        if self.device.startswith("AUTO"):
            # the processor would answer until the device is ready: a trial would prove nothing of it
            found["ENABLE_STARTUP_FALLBACK"] = False
        return found


def _precision_on(device: str, precision: str) -> str:
    """Return the precision that a device knows: NPUs have f16 alone, and GPUs no bf16."""
    return "f16" if "NPU" in device or ("GPU" in device and precision == "bf16") else precision
