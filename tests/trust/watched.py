"""Feeds files to a process that may die, and says what became of each: an answer, a crash or a hang."""

from __future__ import annotations

import json
import os
import select
import struct
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
HANG = 60.0  # seconds for three decodings; one may take 5 by our estimate, and other tests run beside


@dataclass
class Summary:
    """What became of many files."""

    inputs: int = 0
    images: int = 0
    crashes: int = 0
    hangs: int = 0
    memory_mb: float = 0.0
    grown_mb: float = 0.0
    slowest_s: float = 0.0
    slowest: bytes = b""
    bad: list[tuple[str, bytes]] = field(default_factory=list)


class Watched:
    """A process with a limit of memory that decodes files; a new one starts where it died."""

    def __init__(self) -> None:
        self._child: subprocess.Popen[bytes] | None = None
        self._base = 0.0
        self.summary = Summary()

    def __enter__(self) -> Watched:
        return self

    def __exit__(self, *_: object) -> None:
        self._stop()

    def _stop(self) -> None:
        if self._child:
            self._child.kill()
            self._child.communicate()
            self._child = None

    def _start(self) -> subprocess.Popen[bytes]:
        path = os.pathsep.join([str(HERE.parents[1] / "udf"), os.environ.get("PYTHONPATH", "")])
        return subprocess.Popen(
            [sys.executable, str(HERE / "decode_child.py")],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": path, "OPENBLAS_NUM_THREADS": "1", "OPENCV_LOG_LEVEL": "SILENT"},
        )  # fmt: skip

    def decode(self, name: str, data: bytes) -> dict[str, Any] | None:
        """Return the child's answer and count it; None where it crashed or hung."""
        if self._child is None:
            self._child = self._start()
            self._base = 0.0
        child, summary = self._child, self.summary
        assert child.stdin is not None
        assert child.stdout is not None
        summary.inputs += 1
        try:
            child.stdin.write(struct.pack("<I", len(data)) + data)
            child.stdin.flush()
            ready = select.select([child.stdout], [], [], HANG)[0]
            line = child.stdout.readline() if ready else b""
        except BrokenPipeError:
            ready, line = [child.stdout], b""
        if not line:
            summary.hangs += not ready
            summary.crashes += bool(ready)
            summary.bad.append((f"{name}: {'crash' if ready else 'hang'}", data))
            self._stop()
            return None
        answer: dict[str, Any] = json.loads(line)
        self._count(name, data, answer)
        return answer

    def _count(self, name: str, data: bytes, answer: dict[str, Any]) -> None:
        summary = self.summary
        for way, found in answer["found"].items():
            summary.images += found == "image"
            if found not in ("image", "22P03", "54000"):
                summary.bad.append((f"{name}: {way} gave {found}", data))
        summary.memory_mb = max(summary.memory_mb, answer["most"])
        if summary.inputs % 200 == 100 and not self._base:
            self._base = answer["now"]
        if self._base:
            summary.grown_mb = max(summary.grown_mb, answer["now"] - self._base)
        if answer["seconds"] > summary.slowest_s:
            summary.slowest_s, summary.slowest = answer["seconds"], data
