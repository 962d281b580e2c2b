"""Cores and memory within the limits of containers: cgroups of version 1, version 2 and both, and affinity."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dbinfer.base import apart
from dbinfer_udf.host import limits

MB = 1 << 20
DOCKER = "/docker/0123abcd"
NO_LIMIT = 9223372036854771712  # what version 1 says for none


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A root folder to write a fake /proc and /sys/fs/cgroup into, on a machine of 64 cores."""
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(64)))
    return tmp_path


def write(root: Path, files: dict[str, object]) -> str:
    for name, content in files.items():
        path = root / (name if name.startswith("proc") else f"sys/fs/cgroup/{name}")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return str(root)


V1_LINES = f"5:memory:{DOCKER}\n4:cpu,cpuacct:{DOCKER}\n1:name=systemd:{DOCKER}"


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        # docker run --cpus 1 with cgroup v1: the container sees its own group as the top one
        (
            {"proc/self/cgroup": V1_LINES, "cpu/cpu.cfs_quota_us": 100000, "cpu/cpu.cfs_period_us": 100000},
            1,
        ),
        ({"cpu,cpuacct/cpu.cfs_quota_us": 250000, "cpu,cpuacct/cpu.cfs_period_us": 100000}, 3),
        # on the host's own view the group lies below
        (
            {
                "proc/self/cgroup": V1_LINES,
                "cpu/cpu.cfs_quota_us": -1,
                "cpu/cpu.cfs_period_us": 100000,
                f"cpu{DOCKER}/cpu.cfs_quota_us": 50000,
                f"cpu{DOCKER}/cpu.cfs_period_us": 100000,
            },
            1,
        ),
        ({"cpu/cpu.cfs_quota_us": -1, "cpu/cpu.cfs_period_us": 100000}, 64),
        ({"cpu.max": "150000 100000"}, 2),
        ({"cpu.max": "max 100000"}, 64),
        ({"cpu.max": "6400000000 100000"}, 64),
        ({"proc/self/cgroup": "0::/a.slice/b.scope", "a.slice/cpu.max": "400000 100000"}, 4),
        (
            {
                "proc/self/cgroup": "0::/a.slice/b.scope",
                "a.slice/cpu.max": "400000 100000",
                "a.slice/b.scope/cpu.max": "200000 100000",
            },
            2,
        ),
        ({"proc/self/cgroup": "0::/", "unified/cpu.max": "500000 100000"}, 5),
        ({"cpu.max": ""}, 64),
        ({"cpu.max": "100000 0"}, 64),
        ({"proc/self/cgroup": "nonsense"}, 64),
        ({"proc/self/cgroup": "0::/../../elsewhere"}, 64),
        ({}, 64),
    ],
)
def test_cores(tree: Path, files: dict[str, object], cores: int) -> None:
    assert limits.cores(write(tree, files)) == cores


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        ({"proc/self/cgroup": V1_LINES, "memory/memory.limit_in_bytes": 64 * MB}, 64),
        (
            {
                "proc/self/cgroup": V1_LINES,
                "memory/memory.limit_in_bytes": NO_LIMIT,
                f"memory{DOCKER}/memory.limit_in_bytes": 32 * MB,
            },
            32,
        ),
        ({"memory.max": 64 * MB}, 64),
        ({"memory.max": "max", "memory.high": 48 * MB}, 48),
        ({"proc/self/cgroup": "0::/a/b", "a/memory.max": 64 * MB, "a/b/memory.max": 96 * MB}, 64),
    ],
)
def test_memory(tree: Path, files: dict[str, object], megabytes: int) -> None:
    assert limits.memory_bytes(write(tree, files)) == megabytes * MB


@pytest.mark.parametrize("files", [{}, {"memory.max": "max"}, {"memory/memory.limit_in_bytes": NO_LIMIT}])
def test_memory_without_a_limit_is_the_machines(tree: Path, files: dict[str, object]) -> None:
    assert limits.memory_bytes(write(tree, files)) == os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def test_affinity_bounds_the_cores(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: {3})
    assert limits.cores(write(tmp_path, {"cpu.max": "800000 100000"})) == 1


def test_client_and_backends_go_by_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "cores", lambda: 6)
    monkeypatch.setattr(limits, "memory_bytes", lambda: 512 * MB)
    assert (apart.cores(), apart.memory_mb()) == (6, 512)
    assert limits.most_threads({"workers": "2"}) == 2
    assert limits.most_threads({"threads": "5"}) == 5
