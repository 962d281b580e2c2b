"""JSON without the package json: the same values, texts and errors."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from dbinfer_udf import fastjson

VALUES: list[Any] = [
    {"a": [1, 2.5, None, True, 'ä\n"x'], "b": {"c": -1e300}},
    {"z": 1, "a": 10**30, "m": 1e22},
    [],
    "text",
    None,
    [float("inf"), -0.0, 1 / 3],
]


def test_it_writes_and_reads_as_json_does(subtests: pytest.Subtests) -> None:
    for value in VALUES:
        with subtests.test(value=value):
            assert fastjson.dumps(value) == json.dumps(value)
            assert fastjson.dumps(value, sort_keys=True) == json.dumps(value, sort_keys=True)
            assert fastjson.loads(json.dumps(value)) == value
            assert fastjson.loads(f" {json.dumps(value)}\n") == value


def test_what_is_no_json_raises_as_json_does(subtests: pytest.Subtests) -> None:
    for text in ["", "{", "{} {}", "nothing", '{"a": }']:
        with subtests.test(text=text):
            with pytest.raises(json.JSONDecodeError) as expected:
                json.loads(text)
            with pytest.raises(json.JSONDecodeError, match=f"^{expected.value.msg}"):
                fastjson.loads(text)


def test_what_json_cannot_write_raises_as_there() -> None:
    with pytest.raises(TypeError, match="set is not JSON serializable"):
        fastjson.dumps({"a": {1}})


def test_it_does_without_the_scanner_and_the_encoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fastjson, "_scan", None)
    monkeypatch.setattr(fastjson, "_encoders", None)
    assert fastjson.loads(fastjson.dumps({"a": [1]}, sort_keys=True)) == {"a": [1]}


def test_a_session_that_scores_through_the_engine_imports_next_to_nothing() -> None:
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules); "
        "import dbinfer_udf.session.backend, dbinfer_udf.engine.models; "
        "print(' '.join(sorted({n.partition('.')[0] for n in set(sys.modules) - before})))"
    )
    udf = str(Path(__file__).parents[2] / "udf")
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code, udf], capture_output=True, text=True, check=True
    )
    allowed = {"__future__", "ctypes", "dbinfer_udf", "struct", "types", "_sha256"}
    found = {name for name in done.stdout.split() if not name.startswith("_") or name in allowed}
    assert found <= allowed, "each import costs every session and every parallel worker"
