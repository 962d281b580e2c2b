"""`dbinfer convert` as a command: words, output, exit codes, and what it imports."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path

import onnx
import pytest
from convert_models import save_onnx, save_onnx_of_any_size
from float32 import tolerance

from dbinfer.cli.app import main

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
    # two sums: of 3 * 3 * 3 terms, and of 16 * 16
    assert report["check"]["difference"] <= tolerance(report["check"]["magnitude"], 2, 16 * 16)


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
        (["--weights", "int8"], 2, "weights is 'int8'"),
        (["--labels", "@nowhere.txt"], 2, "nowhere.txt"),
        (["--nonsense"], 2, "--nonsense"),
        ([*WORDS, "--tolerance", "1e-12", "--weights", "fp16"], 1, "differs from its source"),
        ([], 1, "does not say its task"),
    ],
)
@pytest.mark.wide
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


def test_the_line_that_an_error_shows_can_be_copied(
    source: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    words = [source, "-o", str(tmp_path / "net.xml"), "--labels", "a,b,c,d,e e"]
    assert _run(monkeypatch, *words) == 1
    error = capfd.readouterr().err
    assert error.count("dbinfer: ") == 1
    (line,) = (line for line in error.splitlines() if line.startswith("for example: "))
    copied = shlex.split(line.removeprefix("for example: "))
    # labels make it a classifier
    asked = ["--activation", "softmax", "--scale", "255"]
    assert copied == ["dbinfer", "convert", *words, *asked]
    assert _run(monkeypatch, *copied[2:]) == 0


def test_a_size_is_printed_as_it_is_typed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = save_onnx(tmp_path / "net.onnx", open_size=True)
    words = (str(source), "-o", str(tmp_path / "net.xml"), *WORDS, "--input-size", "12x20")
    assert _run(monkeypatch, *words) == 0
    assert "net: classification, 12x20 RGB" in capfd.readouterr().out


def test_warnings_of_onnxruntime_stay_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    source = save_onnx_of_any_size(tmp_path / "net.onnx")
    model = onnx.load(source)
    # onnxruntime finds only while it runs that the first side of the result is another
    model.graph.output[0].type.tensor_type.shape.dim[0].dim_value = 3
    onnx.save(model, source)
    words = (str(source), "-o", str(tmp_path / "net.xml"), *WORDS, "--input-size", "32")
    assert _run(monkeypatch, *words) == 0
    out, err = capfd.readouterr()
    assert "on 4 images against onnxruntime" in out
    assert "VerifyOutputSizes" not in err
    assert "\x1b" not in out + err


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
