"""The pages tell the truth: their commands and options exist, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.main import get_command

from dbinfer.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").rglob("*.md")])
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def blocks(page: Path, kind: str) -> list[str]:
    """Return the fenced blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "console") for line in block.splitlines()]
    found = {line[2:].split("  #")[0] for line in lines if line.startswith("$ dbinfer ")}
    # what goes on in the next line has its options there
    return sorted(line.removesuffix("\\") for line in found)


def test_commands_and_options_exist() -> None:
    for command in commands():
        _exists(command)


def _exists(line: str) -> None:
    words = shlex.split(line)[1:]
    command = get_command(app)
    assert words[0] in command.commands, line  # type: ignore[attr-defined]
    while words and words[0] in getattr(command, "commands", {}):
        command = command.commands[words.pop(0)]  # type: ignore[attr-defined]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
    assert {word.partition("=")[0] for word in words if word.startswith("--")} <= known | {"--help"}, line


def test_every_command_is_documented() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    for name in get_command(app).commands:  # type: ignore[attr-defined]
        assert re.search(rf"\b{name}\b", text), name


def test_links_lead_somewhere() -> None:
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#]+)\)", page.read_text(encoding="utf-8")):
            assert target.startswith("http") or (page.parent / target).exists(), f"{page.name}: {target}"


def test_make_targets_exist() -> None:
    text = "\n".join(page.read_text(encoding="utf-8") for page in [*PAGES, ROOT / "CONTRIBUTING.md"])
    for target in re.findall(r"`make ([a-z-]+)", text) + re.findall(
        r"^(?: {4}|\$ )make ([a-z-]+)", text, re.MULTILINE
    ):
        assert target in TARGETS, target
