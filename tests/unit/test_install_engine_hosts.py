"""Which hosts are asked for their engines: those of the segments, and that of Greenplum's coordinator."""

from __future__ import annotations

import json
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.install import hosts
from dbinfer.install.hosts import check_engines
from dbinfer_udf.session.upkeep import engine_facts

FACTS = {"digest": "d", "uptime": 1.0, "models": [], "problem": None}


class Answers:
    """Stands for a connection whose segments are on two hosts, and whose coordinator is on a third."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Any]] = []

    def cursor(self) -> Any:
        return nullcontext(self)

    def execute(self, query: str, values: Any = None) -> None:
        self.asked.append((query, values))

    def fetchall(self) -> list[tuple[str]]:
        asked = ("c0",) if "_full_engines" in self.asked[-1][0] else ("s1", "s1", "s2")
        return [(json.dumps([dict(FACTS, host=host, pid=7)]),) for host in asked]


@pytest.mark.parametrize(
    ("mpp", "may", "expected"),
    [(True, True, ["c0", "s1", "s2"]), (True, False, ["s1", "s2"]), (False, True, ["s1", "s2"])],
)
def test_the_coordinators_host_is_asked_too(
    monkeypatch: pytest.MonkeyPatch, mpp: bool, may: bool, expected: list[str]
) -> None:
    monkeypatch.setattr(hosts, "detect", lambda conn: SimpleNamespace(mpp=mpp))
    monkeypatch.setattr(hosts, "may_ask", lambda conn: may)
    conn = Answers()
    found = hosts.ask(conn, "replace")  # type: ignore[arg-type]
    assert [facts["host"] for facts in found] == expected
    assert {values for _, values in conn.asked} == {("replace",)}


def test_doctor_has_a_check_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosts, "detect", lambda conn: SimpleNamespace(mpp=True))
    monkeypatch.setattr(hosts, "may_ask", lambda conn: True)
    checks = check_engines(Answers(), {"isolation": "always", "runtime_digest": "d"})  # type: ignore[arg-type]
    assert [check.name for check in checks] == ["engine (c0)", "engine (s1)", "engine (s2)"]


def test_a_folder_that_somebody_else_holds_is_a_fault(tmp_path: Path) -> None:
    """With auto the models then run in the backends, which decode strangers' images: somebody's choice, not ours."""
    tmp_path.chmod(0o755)
    (facts,) = engine_facts({"engine_dir": str(tmp_path)}, "d" * 64, dict, "start")
    check = hosts._check(hosts._engine(facts), "auto")
    assert (check.ok, "is open to others" in check.detail) == (False, True)
    # where there can be no engine, auto means the backends
    (facts,) = engine_facts({"engine_dir": "relative"}, "d" * 64, dict, "start")
    assert hosts._check(hosts._engine(facts), "auto").ok


def test_a_service_needs_a_log_that_it_can_write(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"the log .*nowhere/engine\.json cannot be written"):
        hosts.serve(hosts.ServiceOptions(log=str(tmp_path / "nowhere" / "engine.json")))
