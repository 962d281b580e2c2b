"""Every command explains itself: one sentence, its options, an example that uses options that exist."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from dbinfer.cli._app import app


def commands(group: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """Yield (words, command) of each command, also those of sub-groups; hidden ones are other names of the same."""
    if group.hidden:
        return
    if hasattr(group, "commands"):
        for name, command in group.commands.items():
            yield from commands(command, (*path, name))
    else:
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


@pytest.mark.parametrize("name", NAMES)
def test_help_opens_with_a_sentence_and_has_examples(name: str) -> None:
    command = COMMANDS[name]
    first = (command.help or "").strip().splitlines()[0]
    assert first[0].isupper()
    assert first.rstrip().endswith((".", ",")) or len(first) > 60
    assert examples(command), f"dbinfer {name} shows no example"


def named(words: list[str]) -> str:
    """Return the command that an example calls: `bench scaling` before `bench`."""
    fitting = [name for name in NAMES if words[1 : 1 + len(name.split())] == name.split()]
    assert fitting, f"{' '.join(words)}: there is no such command"
    return max(fitting, key=len)


PASSES_OPTIONS_ON = {"psql"}


@pytest.mark.parametrize("name", sorted(set(NAMES) - PASSES_OPTIONS_ON))
def test_examples_use_options_that_exist(name: str) -> None:
    shown = [shlex.split(example) for example in examples(COMMANDS[name])]
    assert name in {named(words) for words in shown}
    for words in shown:
        parameters = COMMANDS[named(words)].params
        known = {
            option for parameter in parameters for option in (*parameter.opts, *parameter.secondary_opts)
        }
        used = {word.partition("=")[0] for word in words if re.match(r"--?[a-z]", word)}
        assert used <= known | {"-h", "--help"}, f"{' '.join(words)}: there is no {used - known}"


@pytest.mark.parametrize("name", NAMES)
def test_every_option_has_help(name: str) -> None:
    silent = [
        parameter.opts[0]
        for parameter in COMMANDS[name].params
        if parameter.param_type_name == "option" and not parameter.help and parameter.opts[0] != "--help"
    ]
    assert silent == []


@pytest.mark.parametrize("name", ["status", "doctor", "models", "install", "upgrade", "deploy"])
def test_commands_that_print_facts_have_json(name: str) -> None:
    assert any("--json" in parameter.opts for parameter in COMMANDS[name].params)
