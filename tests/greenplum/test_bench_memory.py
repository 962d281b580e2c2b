"""The benchmark's memory on a cluster is that of a segment which scored, not of one that sat idle."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import tiny_models

from dbinfer.bench import networks
from dbinfer.bench.database import database
from dbinfer.bench.measure import memory
from dbinfer.bench.methods import Context
from dbinfer.bench.networks import prepared
from dbinfer.bench.report import Case

LIBRARIES_MB = (
    30  # of OpenVINO, NumPy and OpenCV, private to a process that has loaded them; an idle one has 5
)


@pytest.mark.in_backends("a backend that asks the engine loads no libraries")
def test_memory_is_that_of_a_segment_that_scored(
    cluster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(networks, "folder", lambda: tmp_path)
    case = Case("digits", "f32", "100x80", "classify")
    with database(cluster) as opened:
        files = prepared(tiny_models.colour_classifier(tmp_path), tmp_path / "none.keras", "f32")
        opened.deploy(case, files)
        # an engine that runs would serve the first rows
        opened.rows("SELECT dbinfer.set_isolation(%s, 'never')", (case.model,))
        opened.images([tiny_models.file(tiny_models.picture(250, 0, 0))])
        opened.fill("first", 8, 1)
        context: Any = SimpleNamespace(database=opened, case=case)
        context.call = lambda: Context.call(cast(Context, context))
        measured = memory(context)
    assert measured["private_mb"] > LIBRARIES_MB
    assert measured["pss_mb"] >= measured["private_mb"]
