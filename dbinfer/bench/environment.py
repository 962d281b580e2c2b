"""What the figures were measured on: processor, memory, versions, server, date, and what else used the machine."""

from __future__ import annotations

import platform as python_platform
import time
from datetime import datetime, timezone
from importlib import metadata
from pathlib import Path
from typing import Any

from dbinfer.base.apart import cores, memory_mb
from dbinfer.base.version import __version__
from dbinfer.database.platform import Platform
from dbinfer_udf.host.process import NEEDS

SHOWN_FLAGS = ("avx2", "avx512f", "avx512_vnni", "avx_vnni", *NEEDS["bf16"], "amx_int8", "asimd", "i8mm")
PACKAGES = (
    "openvino",
    "numpy",
    "opencv-python-headless",
    "nncf",
    "tensorflow-cpu",
    "psycopg2-binary",
)
LOOK_SECONDS, LOOKS = 1.0, 15
QUIET_SHARE = 0.05


def environment(server: Platform, notes: list[str]) -> dict[str, Any]:
    """Return the facts for the report; `notes` are sentences on what could not be measured, or not well."""
    versions = {package: _version(package) for package in PACKAGES}
    return {
        **machine(),
        "system": python_platform.platform(),
        "python": python_platform.python_version(),
        "dbinfer": __version__,
        "versions": {package: version for package, version in versions.items() if version},
        "server": f"{server.name} {server.version}",
        "segments": server.segments,
        "date": datetime.now(timezone.utc).strftime("%Y-%m-%d %H:%M UTC"),
        "notes": notes,
    }


def machine() -> dict[str, Any]:
    """Return processor, those of its abilities that decide on speed, cores and memory."""
    return {
        "cpu": _cpuinfo("model name") or python_platform.machine(),
        "flags": cpu_flags(),
        "cores": cores(),
        "memory_mb": memory_mb(),
    }


def cpu_flags() -> list[str]:
    """Return the processor's abilities that decide on speed."""
    # x86 calls them flags, ARM Features
    have = _cpuinfo("flags", "Features").split()
    return [flag for flag in SHOWN_FLAGS if flag in have]


def other_load() -> float:
    """Wait until the machine is quiet, a quarter of a minute at most; return the share of it that others use."""
    share = 1.0
    for _ in range(LOOKS):
        share = min(share, _used_share())
        if share < QUIET_SHARE:
            break
    return round(share, 3)


def load_note(loads: list[float]) -> list[str]:
    """Return a sentence where others used the machine before one of the rounds."""
    busy = [f"{share:.0%} before round {i}" for i, share in enumerate(loads, 1) if share >= QUIET_SHARE]
    return [f"other programs used the machine: {', '.join(busy)}."] if busy else []


def _used_share() -> float:
    """Return the share of all processors' time that is used for a second."""
    before = _processor_times()
    time.sleep(LOOK_SECONDS)
    passed = [b - a for a, b in zip(before, _processor_times(), strict=True)]
    return 1 - sum(passed[3:5]) / max(1, sum(passed))  # idle and waiting for disks


def _processor_times() -> list[int]:
    """Return the clock ticks of user, nice, system, idle, iowait, irq, softirq and steal since the boot."""
    first = Path("/proc/stat").read_text().splitlines()[0]
    # guest and guest_nice, which follow, are counted in user and nice already
    return [int(word) for word in first.split()[1:9]]


def _cpuinfo(*names: str) -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        key, _, value = line.partition(":")
        if key.strip() in names:
            return value.strip()
    return ""


def _version(package: str) -> str | None:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
