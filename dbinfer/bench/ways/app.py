"""OpenVINO's own benchmark_app with the throughput hint: inference alone, the hardware's limit."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec

from dbinfer.bench.ways.context import Context, Sample, Skip

# As the program `benchmark_app` does, but without telemetry
PROGRAM = """
import sys, types
stub = types.ModuleType("openvino_telemetry")
stub.Telemetry = lambda *a, **k: types.SimpleNamespace(**{n: (lambda *a, **k: None) for n in
    ("start_session", "end_session", "send_event", "send_error", "force_shutdown", "send_stack_trace")})
sys.modules["openvino_telemetry"] = stub
from openvino.tools.benchmark.main import main
sys.exit(main())
"""
THROUGHPUT = re.compile(r"Throughput:\s*([\d.]+)\s*FPS")


class BenchmarkApp:
    """benchmark_app on the prepared IR, at the precision of the cell."""

    def __init__(self, context: Context) -> None:
        if find_spec("openvino.tools.benchmark") is None:
            raise Skip("benchmark_app is not part of this openvino package.")
        model = context.files.entry.path("xml")
        precision = context.files.manifest.precision
        self.program = [sys.executable, "-c", PROGRAM, "-m", model, "-d", "CPU", "-hint", "throughput"]
        self.program += ["-infer_precision", precision, "-t", str(max(2, round(context.seconds)))]

    def measure(self) -> Sample:
        """Run it for a few seconds."""
        done = subprocess.run(
            self.program, capture_output=True, text=True, check=False, start_new_session=True
        )
        found = THROUGHPUT.search(done.stdout)
        if done.returncode or not found:
            lines = (done.stderr or done.stdout).strip().splitlines() or ["no message"]
            raise Skip(f"benchmark_app failed: {lines[-1]}")
        return Sample(float(found.group(1)))
