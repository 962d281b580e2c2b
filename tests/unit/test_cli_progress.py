"""The one progress bar: what it shows on a terminal, and what stays in a log."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from dbinfer.base.progress import Progress
from dbinfer.cli.progress import progress_bar


def shown(terminal: bool, *told: Progress, steps: bool = False, width: int = 120) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=width, color_system=None, soft_wrap=True)
    with progress_bar(steps, console) as tell:
        for progress in told:
            tell(progress)
    return text.getvalue()


def test_a_terminal_sees_the_step_and_how_much_is_done(subtests: pytest.Subtests) -> None:
    for progress, words in [
        (Progress("loading", 120, 400, "images"), ["loading", "120/400 images"]),
        (Progress("sending", 1_500_000, 3_000_000, "bytes"), ["sending", "1.5 MB of 3.0 MB"]),
        (Progress("counting", 7, None, "rows"), ["counting", "7 rows"]),
        (Progress("scoring"), ["scoring"]),
        (Progress("[0, 1]"), ["[0, 1]"]),
    ]:
        with subtests.test(progress=progress, words=words):
            text = shown(True, progress)
            assert [word for word in words if word not in text] == []


def test_a_log_gets_notes_alone() -> None:
    told = [Progress("epoch 1/2", 1, 9, "images"), Progress("epoch 1/2", 9, 9, "images", note="loss [0.5]")]
    assert shown(False, *told) == "loss [0.5]\n"


def test_a_log_of_a_long_command_gets_each_step_once() -> None:
    told = [Progress("making images"), Progress("making images", 1, 2), Progress("measuring sql")]
    assert shown(False, *told, steps=True) == "making images\nmeasuring sql\n"


def test_a_new_step_starts_anew() -> None:
    text = shown(True, Progress("first", 5, 5, "images"), Progress("second", 1, 5, "images"))
    assert "first" not in text.split("second")[-1]


def test_a_narrow_terminal_shortens_the_bar_and_breaks_no_line() -> None:
    """On 80 columns the word `left` had a line of its own, and the bar jumped between one line and two."""
    amounts = [Progress("epoch 12/12", done, 480, "rows", errors=3) for done in (8, 479)]
    drawn = shown(True, *amounts, width=80).split("\r\x1b[2K")
    assert [words for words in drawn if "479/480 rows" in words and "3 errors" in words.splitlines()[0]]
