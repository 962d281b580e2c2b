"""Every command with no arguments, wrong ones, too many, and an unknown option: a sentence, never a traceback."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer.main

from dbinfer.cli import main
from dbinfer.cli.app import app

# Without arguments these act: they start a server, an engine or a measurement. The others find no server to act on.
ACTING = ("demo", "up", "bench", "bench engine")
ACTING += ("engine run",)
# Here any word is right: psql gets them all
PASSES_ON = ("psql",)
RUNS = ("status", "down")
OURS = re.compile(r"dbinfer: (\S.*)\n(hint: \S.*\n)?")
CLICKS = re.compile(
    r"Missing (argument|option)|No such (option|command)|unexpected extra argument|Invalid value|is not a valid|Aborted"
)


def tree(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (words, command) of everything that can be called: the groups, too, and hidden names."""
    yield " ".join(path), group
    for name, command in getattr(group, "commands", {}).items():
        yield from tree(command, (*path, name))


COMMANDS = dict(tree(typer.main.get_command(app)))


def called(name: str, kind: str) -> list[str]:
    """Return the words that follow the command; `wrong` and `empty` fill all that must be there, one place at least."""

    def filled(value: str) -> list[str]:
        params = [p for p in COMMANDS[name].params if p.required]
        options = [word for p in params if p.param_type_name == "option" for word in (p.opts[0], value)]
        return [value] * max(1, sum(p.param_type_name == "argument" for p in params)) + options

    return {
        "none": [],
        "wrong": filled("nonsense"),
        "empty": filled(""),
        "many": ["nonsense"] * 9,
        "option": ["--nonsense"],
    }[kind]


CALLS = [
    (name, kind)
    for name in COMMANDS
    for kind in ("none", "wrong", "empty", "many", "option")
    if not (kind == "none" and name in ACTING) and not (kind != "none" and name in PASSES_ON)
]


@pytest.fixture(autouse=True)
def _no_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An empty folder, and neither a server nor variables that name one."""
    for name in [name for name in os.environ if name.startswith(("PG", "DBINFER"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("DBINFER_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(sys, "stdin", io.StringIO())  # uninstall asks whether one is sure
    monkeypatch.chdir(tmp_path)


def test_every_call_ends_in_a_sentence(
    subtests: pytest.Subtests, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    for name, kind in CALLS:
        with subtests.test(name=name, kind=kind):
            with pytest.raises(SystemExit) as ended:
                main([*name.split(), *called(name, kind)])
            _ends_in_a_sentence(name, kind, ended.value.code, *capsys.readouterr())
            assert list(tmp_path.iterdir()) == [], "a call that went wrong leaves nothing behind"


def _ends_in_a_sentence(name: str, kind: str, code: object, out: str, err: str) -> None:
    if name in RUNS and kind == "none":
        assert (code, err) == (0, "")
    elif hasattr(COMMANDS[name], "commands") and kind == "none" and not COMMANDS[name].invoke_without_command:
        assert (code, "Usage:" in out + err) == (2, True)
    else:
        assert code in (1, 2)
        assert OURS.fullmatch(err) or CLICKS.search(err), err
    assert "Traceback" not in err


def test_what_acts_is_still_a_command() -> None:
    assert set(ACTING + PASSES_ON + RUNS) <= set(COMMANDS)
