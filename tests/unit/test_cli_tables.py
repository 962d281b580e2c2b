"""Tables of the command line: no word is broken, whatever the width of the terminal."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from dbinfer.cli import screen
from dbinfer.cli.images import show_answers
from dbinfer.cli.screen import print_table
from dbinfer.score import PredictReport
from dbinfer.score.files import Answer

COLUMNS = ["model", "active of", "aliases", "task", "input", "size", "metrics"]
ROWS: list[list[Any]] = [
    [
        "digits *",
        "2 of 1, 2",
        "candidate, production",
        "classification",
        "28x28x1",
        "63.5 kB",
        "accuracy 0.9944",
    ],
    ["strokes", "1 of 1", None, "segmentation", "128x128x3", "1.9 MB", "dice 0.9344\nbinary_accuracy 0.9871"],
]


def printed(monkeypatch: pytest.MonkeyPatch, width: int, terminal: bool = True, **more: Any) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=width, color_system=None, highlight=False)
    monkeypatch.setattr(screen, "console", console)
    print_table("models (* default)", COLUMNS, ROWS, **more)
    return text.getvalue()


def words(cells: list[Any]) -> list[str]:
    return [word for cell in cells if cell is not None for word in str(cell).split()]


def test_no_word_is_broken_and_no_line_is_too_long(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for width in [200, 120, 100, 80, 60, 40]:
        with subtests.test(width=width):
            text = printed(monkeypatch, width)
            assert [word for word in words(COLUMNS + ROWS[0] + ROWS[1]) if word not in text] == []
            assert max(len(line) for line in text.splitlines()) <= width


def test_at_80_columns_the_less_important_columns_go_first_and_the_table_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = printed(monkeypatch, 80, drop=("input", "size", "aliases"))
    assert "accuracy 0.9944" in text
    assert "28x28x1" not in text
    assert "input" in text.splitlines()[-1]
    assert "--json" in text.splitlines()[-1]


def test_a_wide_terminal_and_a_file_get_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    for text in (
        printed(monkeypatch, 200, drop=("input",)),
        printed(monkeypatch, 80, False, drop=("input",)),
    ):
        assert "28x28x1" in text
        assert "--json" not in text
        assert "dice 0.9344" in text


def test_cells_are_text_and_no_markup(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(screen, "console", Console(file=text, width=80))
    print_table("a", ["name"], [["[bold]odd[/]"]])
    assert "[bold]odd[/]" in text.getvalue()


def test_classes_and_objects_have_a_line_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """All fields of all objects stood in one long row."""
    text = io.StringIO()
    console = Console(file=text, width=80, color_system=None, highlight=False)
    monkeypatch.setattr(screen, "console", console)
    seen = [{"label": "cat", "score": 0.5}, {"label": "dog", "score": 0.25}] * 5
    answers = (Answer(Path("a.png"), seen, "", 1.0), Answer(Path("b.png"), [0.5] * 9, "", 1.0))
    show_answers(PredictReport("detect", None, answers))
    lines = text.getvalue().splitlines()
    assert len([line for line in lines if "label" in line]) == 8
    assert [line for line in lines if "label cat, score 0.5 " in line and "dog" not in line]
    assert "... (10 values)" in text.getvalue()
    assert "0.5, ... (9 values)" in text.getvalue()
