"""Other devices than the processor: what a setting names, what is compared, and that a faulty one is found out."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dbinfer.base.errors import UsageError
from dbinfer.install import InstallOptions
from dbinfer.models.ir import import_openvino
from dbinfer_udf.errors import ModelError
from dbinfer_udf.host import sandbox
from dbinfer_udf.host.cache import Entry
from dbinfer_udf.model import device, trial_process, tried
from dbinfer_udf.model.device import Setup
from dbinfer_udf.model.trial import Limits, Result, TrialError, run_trial

sys.path.insert(0, str(Path(__file__).parents[1] / "db"))
import tiny_models

# What every machine has
EVERYWHERE = ("AUTO:CPU", "HETERO:CPU", "MULTI:CPU")
NOWHERE = "GPU.99"
HOST = os.uname().nodename
# An openvino with one more device, which computes another network than it is given
FAULTY = """
import sys
sys.path.remove({folder!r})
del sys.modules["openvino"]
import openvino
plain = openvino.Core.compile_model

def compile_model(self, source, device, config):
    if device != "FAULTY":
        return plain(self, source, device, config)
    graph = self.read_model(source) if isinstance(source, str) else source
    for node in graph.get_ordered_ops():
        if node.get_type_name() == "Constant" and node.get_element_type() == openvino.Type.f32:
            other = openvino.op.Constant(node.data * {factor})
            for reader in node.output(0).get_target_inputs():
                reader.replace_source_output(other.output(0))
    return plain(self, graph, "CPU", {{}})

openvino.Core.compile_model = compile_model
"""


@pytest.mark.parametrize(
    ("setting", "wanted"),
    [
        (None, "CPU"),
        ("GPU", "GPU"),
        (f"GPU {HOST}=NPU", "NPU"),
        (f"{HOST}=AUTO:GPU,CPU GPU", "AUTO:GPU,CPU"),
        ("GPU other=NPU", "GPU"),
        ("other=NPU", "CPU"),
    ],
)
def test_a_setting_names_the_device_of_each_host(setting: str | None, wanted: str) -> None:
    settings = {} if setting is None else InstallOptions(device=setting).settings()
    assert device.wanted(settings) == wanted


@pytest.mark.parametrize(
    "setting", ["", "gpu", "GPU,CPU", "sdw1=", "GPU;", "/usr/lib/x.so", " GPU", "GPU  NPU", "a=b=GPU"]
)
def test_what_is_no_device_is_refused(setting: str) -> None:
    with pytest.raises(UsageError, match=re.escape(f"--device is {setting!r}, but must be a device")):
        InstallOptions(device=setting).settings()


def test_only_a_device_that_passed_here_is_used() -> None:
    asked = {"device": "GPU"}
    assert device.used(asked, {"device": "GPU"}) == "GPU"
    # never tried; refused; tried for another database, whose setting differs
    assert {device.used(asked, found) for found in ({}, {"refused": "no"}, {"device": "AUTO"})} == {"CPU"}
    assert device.used({}, {"device": "GPU"}) == "CPU"


@pytest.mark.parametrize(("machine", "mode"), [("aarch64", "ACCURACY"), ("x86_64", "PERFORMANCE")])
def test_f32_is_f32_on_an_arm_processor(monkeypatch: pytest.MonkeyPatch, machine: str, mode: str) -> None:
    """Its plugin took bf16 for transposed convolutions; tests/docker/test_aarch64.py compares the answers."""
    here = os.uname()
    monkeypatch.setattr(os, "uname", lambda: os.uname_result([*here[:-1], machine]))
    core = device.new_core(import_openvino())
    assert core.get_property("CPU", "EXECUTION_MODE_HINT").name == mode


@pytest.mark.parametrize("name", ["CPU", *EVERYWHERE, "BATCH:CPU(4)"])
def test_the_processor_needs_no_driver(name: str) -> None:
    assert device.guards(name, ["a"], ["b"]) == (["a"], ["b"], False)


@pytest.mark.parametrize("name", ["AUTO", "GPU.1", "HETERO:GPU,CPU", "AUTO:CPU,NPU", "MULTI:CPU,GPU"])
def test_other_devices_open_their_drivers_alone(name: str) -> None:
    readable, writable, commands = device.guards(name, ["a"], ["b"])
    assert (readable, writable, commands) == (
        ["a", "/sys", "/etc/OpenCL"],
        ["b", "/dev/dri", "/dev/accel"],
        True,
    )


def commanded(name: str) -> str:
    """Return the error of a DRM command to a file that is no device, from a process shut in as for a device."""
    program = (
        "import fcntl, sys\n"
        "from dbinfer_udf.host.sandbox import shut_in\n"
        "from dbinfer_udf.model.device import guards\n"
        "fd = open('/dev/null', 'r+b')\n"
        f"lacking = shut_in(*guards({name!r}, ['/usr'], []))\n"
        "try:\n    fcntl.ioctl(fd, 0xC0406400, bytes(64))\n"
        "except OSError as err:\n    print('lacking' if 'seccomp' in lacking else err.strerror)"
    )
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.strip()


@pytest.mark.skipif(not sandbox.has_seccomp(), reason="this kernel filters no system calls")
def test_a_driver_is_commanded_where_a_device_is_wanted() -> None:
    # the driver, here none, refuses it; the filter does
    assert commanded("GPU") == "Inappropriate ioctl for device"
    assert commanded("HETERO:CPU") == "Operation not permitted"


@pytest.mark.parametrize(
    ("setup", "precision"),
    [
        (Setup("bf16"), "bf16"),
        (Setup("bf16", "GPU"), "f16"),
        (Setup("f32", "GPU"), "f32"),
        (Setup("f32", "NPU"), "f16"),
    ],
)
def test_devices_get_a_precision_that_they_know(setup: Setup, precision: str) -> None:
    assert setup.config()["INFERENCE_PRECISION_HINT"] == precision


@pytest.mark.parametrize("name", EVERYWHERE)
def test_a_device_that_computes_the_same_passes(tmp_path: Path, name: str) -> None:
    found = run_trial(
        sys.executable, tiny_models.on_disk(tiny_models.convolution(tmp_path)), Setup("f32", name), Limits()
    )
    assert found.milliseconds > 0
    # threads are the processor's
    assert found.by_threads == {}


def test_a_device_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TrialError, match="OpenVINO cannot run it"):
        run_trial(
            sys.executable,
            tiny_models.on_disk(tiny_models.convolution(tmp_path)),
            Setup("f32", NOWHERE),
            Limits(),
        )


def test_a_faulty_device_is_refused_and_a_sound_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    xml = tiny_models.on_disk(tiny_models.convolution(tmp_path))
    monkeypatch.syspath_prepend(tmp_path)
    shim = tmp_path / "openvino.py"
    shim.write_text(FAULTY.format(folder=str(tmp_path), factor=1.0))
    assert run_trial(sys.executable, xml, Setup("f32", "FAULTY"), Limits()).milliseconds > 0
    shim.write_text(FAULTY.format(folder=str(tmp_path), factor=-1.0))
    with pytest.raises(TrialError, match=r"^FAULTY gives \S+ where f32 on the processor gives \S+$"):
        run_trial(sys.executable, xml, Setup("f32", "FAULTY"), Limits())


def network() -> Any:
    """Return a network of two convolutions and two dense layers, with a score for each of ten classes."""
    ov = import_openvino()
    from openvino import opset13 as ops

    random = np.random.default_rng(0)

    def weights(*shape: int) -> np.ndarray:
        return random.normal(0, np.prod(shape[1:]) ** -0.5, shape).astype(np.float32)

    image = ops.parameter([1, 16, 16, 3], np.uint8, name="image")
    x = ops.transpose(
        ops.multiply(ops.convert(image, np.float32), np.float32(1 / 255)), np.array([0, 3, 1, 2])
    )
    for given, made in ((3, 8), (8, 8)):
        x = ops.convolution(x, weights(made, given, 3, 3), [1, 1], [1, 1], [1, 1], [1, 1])
        x = ops.elu(ops.add(x, weights(1, made, 1, 1)), 1.0)
    x = ops.reshape(x, np.array([1, -1]), False)
    x = ops.elu(ops.matmul(x, weights(32, 8 * 16 * 16), False, True), 1.0)
    x = ops.matmul(x, weights(10, 32), False, True)
    return ov.Model([ops.result(x)], [image], "net")


def _zero(data: np.ndarray, place: int) -> None:
    data.reshape(-1)[place % data.size :] = 0


def _negate(data: np.ndarray, place: int) -> None:
    data[place % len(data)] *= -1


def _swap(data: np.ndarray, place: int) -> None:
    data[...] = np.roll(data, 1, 0 if len(data) > 1 else 1)


def _scale(data: np.ndarray, place: int) -> None:
    data *= 1.25


def _no_number(data: np.ndarray, place: int) -> None:
    data.reshape(-1)[place % data.size] = np.nan


def weights_of(graph: Any) -> list[Any]:
    """Return the constants of a graph that are weights of layers."""
    constants = [node for node in graph.get_ordered_ops() if node.get_type_name() == "Constant"]
    return [node for node in constants if node.data.dtype == np.float32 and node.data.size > 8]


def replace_data(node: Any, data: np.ndarray) -> None:
    other = import_openvino().op.Constant(data)
    for reader in node.output(0).get_target_inputs():
        reader.replace_source_output(other.output(0))


FAULTS = (_zero, _negate, _swap, _scale, _no_number)


def judged(monkeypatch: pytest.MonkeyPatch, folder: Path, precision: str, change: Any) -> None:
    """Try a network on a device that changes it first, in this process; ModelError where it is refused."""
    ov = import_openvino()
    ov.save_model(network(), folder / "net.xml", compress_to_fp16=False)

    class Core:
        def compile_model(self, source: str, name: str, config: dict[str, Any]) -> Any:
            core = ov.Core()
            graph = core.read_model(source)
            if name != "CPU":
                change(graph)
            return core.compile_model(graph, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})

    monkeypatch.setattr(trial_process, "_core", lambda xml: Core())
    monkeypatch.setattr(trial_process, "_say", lambda **line: None)
    call = {"xml": str(folder / "net.xml"), "precision": precision, "device": "FAULTY", "sample": None}
    trial_process._measure(call)


@pytest.mark.parametrize("number", range(50))
def test_fifty_faulted_compilations_are_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    random, fault = np.random.default_rng(number), FAULTS[number % len(FAULTS)]

    def change(graph: Any) -> None:
        weights = weights_of(graph)
        node = weights[random.integers(len(weights))]
        data = node.data.copy()
        fault(data, int(random.integers(1000)))
        replace_data(node, data)

    with pytest.raises(ModelError, match="FAULTY gives "):
        judged(monkeypatch, tmp_path, "f32", change)


@pytest.mark.parametrize(("precision", "bits"), [("f32", 11), ("f16", 11), ("bf16", 8)])
def test_a_device_that_rounds_is_not_faulty(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, bits: int
) -> None:
    def change(graph: Any) -> None:
        for node in weights_of(graph):
            fraction, exponent = np.frexp(node.data)
            replace_data(node, np.ldexp(np.round(fraction * 2**bits) / 2**bits, exponent).astype(np.float32))

    judged(monkeypatch, tmp_path, precision, change)


@pytest.fixture
def entry(tmp_path: Path) -> Entry:
    made = Entry(str(tmp_path), "1" * 64, "2" * 64)
    os.makedirs(made.folder)
    Path(made.path("xml")).write_bytes(b'<?xml version="1.0"?>\n<net name="a">')
    return made


def test_a_refused_device_is_tried_again_after_an_hour(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def trial(*given: Any, setup: Setup, **more: Any) -> Result:
        asked.append(setup.device)
        if setup.device != "CPU":
            raise TrialError("GPU gives 1 where f32 on the processor gives 0")
        return Result(10.0, 1.5, 1 << 20, by_threads={"1": 1.5, "2": 0.8})

    monkeypatch.setattr(tried, "run_trial", trial)
    settings = {"device": "GPU"}
    for _ in range(2):
        # the model has passed on the processor, whose figures count
        assert tried.require_tried(entry, "f32", settings, "1") == {"1": 1.5, "2": 0.8}
    assert asked == ["CPU", "GPU"]
    os.utime(tried.trial_path(entry.folder), (0, 0))
    tried.require_tried(entry, "f32", settings, "1")
    assert asked == ["CPU", "GPU"] * 2
    # the processor is another question
    tried.require_tried(entry, "f32", {}, "1")
    assert asked == [*["CPU", "GPU"] * 2, "CPU"]


def test_the_figures_are_those_of_the_device(entry: Entry, monkeypatch: pytest.MonkeyPatch) -> None:
    on_cpu = Result(10.0, 8.0, 1 << 20, by_threads={"1": 8.0, "2": 4.0})

    def trial(*given: Any, setup: Setup, **more: Any) -> Result:
        return on_cpu if setup.device == "CPU" else replace(on_cpu, milliseconds=0.5, by_threads={})

    monkeypatch.setattr(tried, "run_trial", trial)
    assert tried.require_tried(entry, "f32", {"device": "GPU"}, "1") == {}
    found = tried.read_trial(entry.folder)[0]
    assert (found["device"], found["milliseconds"]) == ("GPU", 0.5)
