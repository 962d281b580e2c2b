"""What Greenplum 6, a PostgreSQL 9.4, is given of our SQL and our errors: nothing that it does not know."""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dbinfer.database.platform import Platform
from dbinfer.database.sql import read, root
from dbinfer_udf.host import interrupts, process
from dbinfer_udf.session import ticket

SIX = Platform("greenplum", "6.24.3", 90426, 3)
SEVEN = Platform("greenplum", "7.1.0", 120012, 3)
POSTGRESQL = Platform("postgresql", "17.2", 170002, 0)

# Each with the version of PostgreSQL that brought it
LATER = (
    r"\bPARALLEL\b",  # 9.6
    r"\bjsonb_(agg|object_agg|build_\w+|set|strip_nulls|pretty|insert)\(",  # 9.5
    r"\bto_jsonb\(",  # 9.5
    r"\w =>",  # 9.5; := means the same everywhere
    r"::reg(role|namespace)\b",  # 9.5
    r"\bON CONFLICT\b",  # 9.5
    r"\bpg_policy\b",  # 9.5
    r"\bpg_control_system\b",  # 9.6
    r"current_setting\([^()]*, true\)",  # 9.6
    r"\bADD COLUMN IF NOT EXISTS\b",  # 9.6
    r"plpy\.error\([^)]*hint=",  # 9.6
    r"CREATE SEQUENCE \S+ AS\b",  # 10
    r"\bpg_statistic_ext\b",  # 10
    r"(?<!hashlib\.)\bsha256\((?!text)",  # 11
    r"\bjit = ",  # 11
    r"\bAS MATERIALIZED\b",  # 12
)
# Files that Greenplum 6 never sees: of PostgreSQL alone, and of the benchmark and the demo of the embedded server
ELSEWHERE = ("client/job_group.sql", "bench/", "demo/")


def _files() -> list[Path]:
    names = [(file, str(file.relative_to(root()))) for file in sorted(root().rglob("*.sql"))]
    return [file for file, name in names if not name.startswith(ELSEWHERE)]


def _code(sql: str) -> str:
    return re.sub(r"--[^\n]*|/\*.*?\*/|(?<!\S)# [^\n]*", "", sql, flags=re.DOTALL)


def test_nothing_that_came_after_9_4() -> None:
    for file in _files():
        code = _code(SIX.adapt(file.read_text()))
        assert "greenplum6" not in code, file
        assert [word for word in LATER if re.search(word, code)] == [], file


def test_instead_of_a_text_and_beside_it() -> None:
    text = "a /* greenplum6: b */ c /* :greenplum6 */ d /* greenplum6: e */ f /* greenplum6: */ g /* :greenplum6 */"
    assert SIX.adapt(text).split() == ["a", "b", "d", "e", "f"]
    # what follows the first mark is not taken for the end of another
    text = "/* greenplum6: b */ c /* greenplum6: d */ e /* :greenplum6 */"
    assert SIX.adapt(text).split() == ["b", "c", "d"]
    assert SIX.adapt("if a:\n    # greenplum6: b()\n    c()\n    # :greenplum6\nd()") == "if a:\n    b()\nd()"


@pytest.mark.parametrize("platform", [SEVEN, POSTGRESQL], ids=["greenplum 7", "postgresql"])
def test_other_servers_see_comments(platform: Platform) -> None:
    for file in _files():
        text = platform.adapt(file.read_text())
        assert text.count("greenplum6") == file.read_text().count("greenplum6")
        assert "spidata" not in _code(text)


class _Plpy:
    Error = type("Error", (Exception,), {})
    SPIError = type("SPIError", (Exception,), {})


def test_an_error_keeps_its_hint_and_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "is_9_4", lambda: True)
    error = ticket.database_error(_Plpy, "what is wrong", "On this server", "Do this.", "22P03")
    assert isinstance(error, _Plpy.SPIError)
    # PostgreSQL packs six bits of each character, the first one lowest
    assert error.spidata == (50462850, "On this server", "Do this.", None, 0)  # type: ignore[attr-defined]
    assert (type(error).__name__, type(error).__module__) == ("dbinfer", "builtins")
    without = ticket.database_error(_Plpy, "what is wrong", "", "", "22P03")
    assert without.spidata[1:3] == (None, None)  # type: ignore[attr-defined]


def test_a_body_raises_what_plpython_of_9_4_reports() -> None:
    body = SIX.adapt(read("resolve/_text.sql")).split("$$")[1]
    lines = "".join(f"    {line}\n" for line in body.strip().splitlines())
    scope: dict[str, Any] = {"GD": {}, "plpy": _Plpy}
    exec(f"def run(task, img, token, on_error, k):\n{lines}", scope)
    with pytest.raises(_Plpy.SPIError, match="unknown model token") as caught:
        scope["run"]("predict", b"", "forged", "error", 0)
    # 22023, and the hint
    assert caught.value.spidata[0] == 50856066  # type: ignore[attr-defined]
    assert "dbinfer.predict" in caught.value.spidata[2]  # type: ignore[attr-defined]


@pytest.mark.parametrize(("old", "noted"), [(True, False), (False, True)])
def test_a_flag_is_one_byte(monkeypatch: pytest.MonkeyPatch, old: bool, noted: bool) -> None:
    """Before: another flag beside it, that enough rows had come, was taken for the end of the process."""
    memory = ctypes.create_string_buffer(b"\0\1\0\0")

    def reads(kind: Any) -> SimpleNamespace:
        return SimpleNamespace(in_dll=lambda server, name: kind.from_buffer(memory))

    kinds = SimpleNamespace(c_bool=reads(ctypes.c_bool), c_int=reads(ctypes.c_int))
    monkeypatch.setattr(interrupts, "ctypes", kinds)
    monkeypatch.setattr(interrupts, "is_9_4", lambda: old)
    monkeypatch.setattr(interrupts, "_flags", {})
    assert interrupts._noted("ProcDiePending") is noted


def test_a_process_that_is_no_server_has_the_fields() -> None:
    assert not process.is_9_4()
