"""`dbinfer convert` as a command: words, output, exit codes, and what it imports."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from convert_models import save_onnx

from dbinfer.cli._app import main

WORDS = ["--task", "classification", "--activation", "softmax", "--scale", "255"]


def _run(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    monkeypatch.setattr(sys, "argv", ["dbinfer", "convert", *words])
    try:
        main()
    except SystemExit as end:
        return int(end.code or 0)
    return 0


@pytest.fixture
def source(tmp_path: Path) -> str:
    return str(save_onnx(tmp_path / "net.onnx"))


def test_json_report(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "names.txt").write_text("a\nb\nc\n\nd d\ne\n")
    output = str(tmp_path / "net.xml")
    words = [*WORDS, "--labels", f"@{tmp_path}/names.txt", "--color", "bgr", "--mean", "1,2,3", "--json"]
    assert _run(monkeypatch, source, "-o", output, *words) == 0
    report = json.loads(capfd.readouterr().out)
    assert report["manifest"]["labels"] == ["a", "b", "c", "d d", "e"]
    assert (report["manifest"]["color"], report["manifest"]["mean"]) == ("BGR", [1.0, 2.0, 3.0])
    assert report["inputs"] == [{"name": "image", "shape": [1, 3, 16, 16], "type": "f32"}]
    assert report["check"]["done"] is True
    assert report["check"]["difference"] < 1e-4


def test_table_says_what_was_compared_and_assumed(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = (source, "-o", str(tmp_path / "net.xml"), *WORDS)
    assert _run(monkeypatch, *words) == 0
    out = capfd.readouterr().out
    assert ", on 4 images against onnx" in out
    assert "color RGB, precision auto, resize standard" in out
    assert _run(monkeypatch, *words) == 0
    assert "the same content was there already" in capfd.readouterr().out


@pytest.mark.parametrize(
    ("words", "code", "message"),
    [
        (["--task", "guessing"], 2, "--task is 'guessing'"),
        (["--scale", "a"], 2, "--scale is 'a'"),
        (["--input-size", "12x"], 2, "--input-size is '12x'"),
        (["--layout", "hwc"], 2, "--layout is 'hwc'"),
        (["--weights", "int8"], 2, "--weights is 'int8'"),
        (["--labels", "@nowhere.txt"], 2, "nowhere.txt"),
        (["--nonsense"], 2, "--nonsense"),
        ([*WORDS, "--tolerance", "1e-12", "--weights", "fp16"], 1, "differs from its source"),
        ([], 1, "does not say its task"),
    ],
)
def test_exit_codes(
    source: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
    words: list[str],
    code: int,
    message: str,
) -> None:
    assert _run(monkeypatch, source, "-o", str(tmp_path / "net.xml"), *words) == code
    error = capfd.readouterr().err
    assert message in error
    assert "Traceback" not in error


def test_help_has_examples(monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> None:
    assert _run(monkeypatch, "--help") == 0
    assert "dbinfer convert digits.keras -o digits.xml" in capfd.readouterr().out


def test_help_imports_neither_tensorflow_nor_openvino() -> None:
    code = (
        "import sys; sys.argv = ['dbinfer', 'convert', '--help']\n"
        "from dbinfer.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        "print(sorted({'tensorflow', 'keras', 'openvino'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.splitlines()[-1] == "[]"
