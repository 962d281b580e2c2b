"""What a process may still take, by the machine and cgroups of both versions; a model that does not fit is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbinfer_udf.engine import loader
from dbinfer_udf.errors import ModelError
from dbinfer_udf.host import memory
from dbinfer_udf.host.limits import free_bytes
from dbinfer_udf.host.memory import require_memory

MB = 1 << 20
MACHINE = {"proc/meminfo": "MemTotal: 4194304 kB\nMemAvailable: 2097152 kB"}
V2 = {
    "proc/self/cgroup": "0::/db",
    "sys/fs/cgroup/db/memory.max": 512 * MB,
    "sys/fs/cgroup/db/memory.current": 400 * MB,
    "sys/fs/cgroup/db/memory.stat": f"anon {300 * MB}\ninactive_file {30 * MB}\nactive_file {20 * MB}",
}
V1 = {
    "proc/self/cgroup": "5:memory:/docker/0123",
    "sys/fs/cgroup/memory/memory.limit_in_bytes": 512 * MB,
    "sys/fs/cgroup/memory/memory.usage_in_bytes": 500 * MB,
    "sys/fs/cgroup/memory/memory.stat": f"inactive_file 1\ntotal_inactive_file {10 * MB}\ntotal_active_file 0",
}


def write(root: Path, files: dict[str, object]) -> str:
    for name, content in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{content}\n")
    return str(root)


@pytest.mark.parametrize(
    ("files", "megabytes"),
    [
        (MACHINE, 2048),
        ({**MACHINE, **V2}, 162),
        ({**MACHINE, **V1}, 22),
        ({**MACHINE, **V2, "sys/fs/cgroup/db/memory.max": "max"}, 2048),
        ({**MACHINE, **V2, "sys/fs/cgroup/db/memory.current": 900 * MB}, 0),
    ],
)
def test_what_is_free(tmp_path: Path, files: dict[str, object], megabytes: int) -> None:
    assert free_bytes(write(tmp_path, files)) == megabytes * MB


def test_where_nothing_is_known_nothing_is_refused(tmp_path: Path) -> None:
    assert free_bytes(str(tmp_path)) is None
    require_memory(model(tmp_path, 1), {}, str(tmp_path))


def model(folder: Path, megabytes: int) -> str:
    (folder / "model.xml").write_bytes(b"")
    (folder / "model.bin").write_bytes(bytes(megabytes * MB))
    return str(folder)


def test_the_engine_waits_for_what_sessions_that_end_give_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All sessions that wait for a model hear of its refusal, and one that came a moment later got an answer."""
    free = iter([20 * MB, 20 * MB, 400 * MB])
    monkeypatch.setattr(memory, "free_bytes", lambda root: next(free))
    loader._wait_for_room(model(tmp_path, 50), {})
    assert list(free) == []
    monkeypatch.setattr(memory, "free_bytes", lambda root: 20 * MB)
    monkeypatch.setattr(loader, "ROOM_SECONDS", 0.1)
    with pytest.raises(ModelError, match="only 20 MB are free"):
        loader._wait_for_room(model(tmp_path, 50), {})


def test_a_model_that_fits_is_loaded_and_one_that_does_not_is_refused(tmp_path: Path) -> None:
    root = write(tmp_path, {**MACHINE, **V2})
    require_memory(model(tmp_path, 10), {}, root)
    with pytest.raises(
        ModelError, match="the model needs about 118 MB of memory, but only 162 MB are free"
    ) as caught:
        require_memory(model(tmp_path, 50), {}, root)
    assert caught.value.sqlstate == "53200"
    assert "At least 64 MB must stay free" in caught.value.detail
    require_memory(model(tmp_path, 50), {"min_free_mb": "10"}, root)
