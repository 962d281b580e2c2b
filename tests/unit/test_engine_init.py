"""PostgreSQL as process 1 of a container collects every orphan, and takes one that a signal ended for a crash."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from dbinfer_udf.engine import client
from dbinfer_udf.errors import EngineError

ROOT = Path(__file__).parents[2]


def test_process_1_starts_no_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "postmaster", lambda: 1)
    settings: dict[str, Any] = {}
    monkeypatch.setattr(
        client.address, "find", lambda *given, **more: client.address.Address(str(tmp_path), "d")
    )
    with pytest.raises(EngineError, match="process 1 of its container") as caught:
        client.Engine(settings, "digest", {}).attach()
    assert "--init" in caught.value.hint


def test_the_database_container_has_an_init_process() -> None:
    assert "\n    init: true\n" in (ROOT / "docker" / "database" / "compose.yaml").read_text()


def test_the_design_says_how_large_the_engine_is() -> None:
    (said,) = re.findall(
        r"Ours is about ([\d,]+) lines", (ROOT / "docs" / "explanation" / "design.md").read_text()
    )
    runtime = ROOT / "udf" / "dbinfer_udf"
    files = [
        *runtime.glob("engine/*.py"),
        *(runtime / "host" / f"{n}.py" for n in ("protocol", "sandbox", "syscalls")),
    ]
    lines = sum(len(path.read_text().splitlines()) for path in files)
    assert abs(lines - int(said.replace(",", ""))) < 200
