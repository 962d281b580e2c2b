"""What strangers have named or written reaches no terminal as more than text: tables, lines, progress, errors, JSON."""

from __future__ import annotations

import ast
import io
import itertools
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from rich.table import Table
from rich.text import Text
from source_tree import ROOT

from dbinfer.base.errors import HARMFUL, ConvertError, harmless
from dbinfer.base.progress import Progress
from dbinfer.cli import screen
from dbinfer.cli.app import main
from dbinfer.cli.progress import progress_bar
from dbinfer.cli.screen import Screen, print_json, print_table, say

# a title, a cleared screen, a hyperlink, the C1 form of a sequence, a delete, signs that turn the line, half a sign
HOSTILE = "\x1b]0;owned\x07a\x1b[2J\x1b]8;;http://x\x1b\\b\x9b31mc\x7f\u202ed\u2066e\u061cf\udcff\r\x08[/][link=x]g[/link]"
SHOWN = r"\x1b]0;owned\x07a\x1b[2J\x1b]8;;http://x\x1b\b\x9b31mc\x7f\u202ed\u2066e\u061cf\udcff\r\x08[/][link=x]g[/link]"


def test_every_sign_that_controls_is_shown() -> None:
    assert harmless(HOSTILE) == SHOWN
    bad = [
        *range(9),
        *range(11, 32),
        *range(127, 160),
        0x61C,
        0x200E,
        0x200F,
        *range(0x202A, 0x202F),
        *range(0x2066, 0x206A),
    ]
    assert [number for number in range(0x3000) if HARMFUL.search(chr(number))] == bad
    # what people write stays as it is: marks, joined signs, other directions
    for text in ("Größe", "日本語", "שלום", "कि", "👩\u200d🔬", "a\tb\nc"):
        assert harmless(text) == text


def on_screen(act: Callable[[Screen], Any], terminal: bool) -> str:
    out = io.StringIO()
    act(Screen(file=out, force_terminal=terminal, width=500, color_system=None, soft_wrap=True))
    return out.getvalue()


def table() -> Table:
    made = Table(HOSTILE, title=HOSTILE)
    made.add_row(HOSTILE)
    made.add_row(Text(HOSTILE))
    return made


def told(screen: Screen) -> None:
    with progress_bar(True, screen) as tell:
        tell(Progress(HOSTILE, 1, 2, "images", note=HOSTILE))


def waited(screen: Screen) -> None:
    with screen.status("starting") as status:
        status.update(Text(HOSTILE))
        screen.print(HOSTILE)


PRINTED: dict[str, Callable[[Screen], Any]] = {
    "a text": lambda screen: screen.print(HOSTILE),
    "a style": lambda screen: screen.print(HOSTILE, style="bold"),
    "a piece": lambda screen: screen.print(Text(HOSTILE, "red")),
    "a table": lambda screen: screen.print(table()),
    "progress": told,
    "a wait": waited,
}


def test_a_screen_gets_text_alone(subtests: pytest.Subtests) -> None:
    for what, terminal in itertools.product(PRINTED, [False, True]):
        with subtests.test(what=what, terminal=terminal):
            text = on_screen(PRINTED[what], terminal)
            # Rich's own orders on a terminal: where the cursor goes, whether it is seen
            for own in (
                "\x1b[1A",
                "\x1b[2K",
                "\x1b[?25l",
                "\x1b[?25h",
                "\x1b[1m",
                "\x1b[31m",
                "\x1b[0m",
                "\r",
            ):
                text = text.replace(own, "")
            assert HARMFUL.findall(text) == []
            assert r"a\x1b[2J" in text
            assert "[link=x]g[/link]" in text


@pytest.mark.parametrize("width", [500, 20])
def test_a_table_has_text_alone(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr(
        screen, "console", Screen(file=out, force_terminal=True, width=width, color_system=None)
    )
    print_table(HOSTILE, ["name"], [[HOSTILE], [7]])
    assert HARMFUL.findall(out.getvalue()) == []
    assert "owned" in out.getvalue()


def test_lines_and_json_have_text_alone(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    say(f"{HOSTILE}\ndbinfer: a line of his own")
    assert capsys.readouterr().out == f"{SHOWN}\\ndbinfer: a line of his own\n"
    print_json({HOSTILE: [HOSTILE, "Größe"]})
    said = capsys.readouterr().out
    assert HARMFUL.findall(said) == []
    assert "Größe" in said
    assert json.loads(said) == {HOSTILE: [HOSTILE, "Größe"]}


def test_an_error_has_text_alone(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise ConvertError(HOSTILE, HOSTILE, [HOSTILE])

    monkeypatch.setattr("dbinfer.cli.app.app", fail)
    with pytest.raises(SystemExit):
        main(["convert", HOSTILE])
    said = capsys.readouterr().err
    assert HARMFUL.findall(said) == []
    assert said.count("\n") == 3
    assert str(ConvertError(HOSTILE, HOSTILE)) == f"{SHOWN}\n{SHOWN}"


def test_the_command_line_prints_nothing_past_these_functions() -> None:
    found = []
    for path in sorted((ROOT / "dbinfer" / "cli").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            name = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if name in ("typer.echo", "typer.secho", "print", "Console", "click.echo"):
                found.append((path.name, name))
    assert {name for name, _ in found} == {"app.py", "screen.py"}
    assert not [name for name in found if name[1] in ("print", "Console")]


def test_names_of_files_are_shown_whatever_their_bytes(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Of a name that is no UTF-8, too: half a sign has no form on a terminal."""
    path = tmp_path / "n\udcffet\x1b[31m.keras"
    for words in (["convert", str(path), "-o", "x.xml"], ["deploy", str(path.with_suffix(".xml"))]):
        with pytest.raises(SystemExit):
            main(words)
        out, err = capfd.readouterr()
        assert HARMFUL.findall(out + err) == []
        assert r"n\udcffet\x1b[31m" in err
