"""Every command explains itself: one sentence, its options, an example that uses options that exist."""

from __future__ import annotations

import importlib
import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from dbinfer.cli import main
from dbinfer.cli.app import COMMANDS as TABLE
from dbinfer.cli.app import RENAMED, app, renamed
from dbinfer.cli.options import spread_all


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (words, command) of each command, also those of sub-groups; hidden ones are other names of the same."""
    if group.hidden:
        return
    for name, command in getattr(group, "commands", {}).items():
        yield from commands(command, (*path, name))
    if getattr(group, "invoke_without_command", True):
        yield " ".join(path), group


COMMANDS = dict(commands(typer.main.get_command(app)))
NAMES = sorted(COMMANDS)


def examples(command: Any) -> list[str]:
    text = (
        re.split(r"\**Examples:?\**\n", command.help or "")[-1] if "Examples" in (command.help or "") else ""
    )
    lines = [line.strip() for line in re.sub(r"\\\n\s*", " ", text).splitlines()]
    found = [re.match(r"(?:\$ )?(?:[A-Z_]+=\S+ )*(dbinfer .*)", line) for line in lines]
    return [match.group(1) for match in found if match]


def test_the_commands_of_the_main_path_are_there() -> None:
    expected = "up down status install upgrade uninstall doctor convert deploy models activate drop grant revoke load"
    assert set(expected.split()) <= set(NAMES)


def test_the_table_has_what_the_modules_register() -> None:
    """What is not there cannot be called."""
    for module in {known.module for known in TABLE.values()}:
        group = typer.Typer()
        group.callback()(lambda: None)
        importlib.import_module(f"dbinfer.cli.{module}").register(group)
        spread_all(group)
        names = set(typer.main.get_group(group).commands)
        assert names == {name for name, known in TABLE.items() if known.module == module}


def test_the_list_of_commands_is_the_table(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    shown = " ".join(capsys.readouterr().out.split())
    for name, known in TABLE.items():
        assert f"{name} {known.line}" in shown
        assert f"{known.panel}: " in shown


def test_help_opens_with_a_sentence_and_has_examples() -> None:
    for name, command in COMMANDS.items():
        first = (command.help or "").strip().splitlines()[0]
        assert first[0].isupper(), name
        assert first.rstrip().endswith((".", ",")) or len(first) > 60, name
        assert examples(command), f"dbinfer {name} shows no example"


def named(words: list[str]) -> str:
    """Return the command that an example calls: `bench engine` before `bench`."""
    fitting = [name for name in NAMES if words[1 : 1 + len(name.split())] == name.split()]
    assert fitting, f"{' '.join(words)}: there is no such command"
    return max(fitting, key=len)


PASSES_OPTIONS_ON = {"psql"}


def test_examples_use_options_that_exist() -> None:
    for name in set(NAMES) - PASSES_OPTIONS_ON:
        _options_of_examples_exist(name)


def _options_of_examples_exist(name: str) -> None:
    shown = [shlex.split(example) for example in examples(COMMANDS[name])]
    assert name in {named(words) for words in shown}
    for words in shown:
        parameters = COMMANDS[named(words)].params
        known = {
            option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)
        }
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used <= known | {"-h", "--help"}, f"{' '.join(words)}: there is no {used - known}"


def test_every_option_has_help() -> None:
    options = [
        (name, parameter)
        for name, command in COMMANDS.items()
        for parameter in command.params
        if parameter.param_type_name == "option" and parameter.opts[0] != "--help"
    ]
    assert [f"{name} {option.opts[0]}" for name, option in options if not option.help] == []


def test_commands_that_print_facts_have_json() -> None:
    for name in ("status", "doctor", "models", "install", "upgrade", "deploy"):
        assert any("--json" in parameter.opts for parameter in COMMANDS[name].params), name


def test_old_spellings_still_work_and_say_so(capsys: pytest.CaptureFixture[str]) -> None:
    for command, words in RENAMED.items():
        root = typer.main.get_command(app).commands  # type: ignore[attr-defined]
        options = {option for parameter in root[command].params for option in parameter.opts}
        for old, new in words.items():
            assert new in options, f"{command} has no {new}"
            assert old not in options
            assert list(renamed([command, old, "x", f"{old}=y"])) == [command, new, "x", f"{new}=y"]
            said = f"hint: {old} is now {new}; the old spelling ends with the next release"
            assert capsys.readouterr() == ("", f"{said}\n{said}\n")


def test_what_has_no_default_is_asked_for() -> None:
    needed = {
        name: {parameter.name for parameter in COMMANDS[name].params if parameter.required}
        for name in ("convert", "quantize", "deploy", "train", "tune", "score", "load")
    }
    assert needed == {
        "convert": {"source", "output"},
        "quantize": {"model", "calibrate"},
        "deploy": {"model"},
        "train": set(),  # --from, or a file of options, may say it
        "tune": {"network", "data"},
        "score": set(),
        "load": set(),
    }
