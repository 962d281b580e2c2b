"""A Python of its own: what it runs, and what is said where there is none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from dbinfer_udf.errors import UdfError
from dbinfer_udf.host import own_python
from dbinfer_udf.session import draw_apart

PYTHON = "/usr/bin/python3"


def test_it_runs_what_it_is_told_and_nothing_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "/elsewhere")
    program = b"import os, sys; print(sys.argv, os.getcwd(), '/elsewhere' in sys.path)"
    process = own_python.started(PYTHON, program, "a title", stdout=subprocess.PIPE)
    with process.stdout as out:
        assert out.read() == b"['-', 'a title'] / False\n"
    process.wait()


def test_a_limit_to_some_instructions_holds_for_it_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before, the engine computed with all that the processor has, whatever the server was told."""
    monkeypatch.setenv("OV_CPU_MAX_ISA", "AVX2")
    process = own_python.started(
        PYTHON, b"import os; print(os.environ['OV_CPU_MAX_ISA'])", stdout=subprocess.PIPE
    )
    with process.stdout as out:
        assert out.read() == b"AVX2\n"
    process.wait()


def test_one_that_is_dead_before_it_has_read_its_program_is_no_error() -> None:
    process = own_python.started("/bin/true", b"x" * (1 << 20), stdout=subprocess.DEVNULL)
    assert process.wait() == 0


def test_drawing_without_a_python_says_so(tmp_path: Path) -> None:
    """Before, this was an `unexpected FileNotFoundError`."""
    settings = {"venv": str(tmp_path)}
    with pytest.raises(
        UdfError, match=r"the Python that draws, .* cannot be started: No such file"
    ) as caught:
        draw_apart.drawn_apart(settings, b"img", (None, None))
    assert caught.value.for_everybody().message == "nothing can be drawn here"
