"""The pages tell the truth: their commands and options exist, their links lead somewhere."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

from typer.main import get_command
from typer.testing import CliRunner

from dbinfer.cli.app import app

ROOT = Path(__file__).parents[2]
PAGES = sorted([ROOT / "README.md", *(ROOT / "docs").glob("*.md")])
TARGETS = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)


def blocks(page: Path, kind: str) -> list[str]:
    """Return the fenced blocks of one kind."""
    return re.findall(rf"^```{kind}\n(.*?)^```", page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)


def commands() -> list[str]:
    lines = [line for page in PAGES for block in blocks(page, "console") for line in block.splitlines()]
    found = [line[2:].split("  #")[0] for line in lines if line.startswith("$ dbinfer ")]
    return sorted(set(found))


def test_commands_and_options_exist() -> None:
    for command in commands():
        _exists(command)


def _exists(command: str) -> None:
    words = shlex.split(command)[1:]
    options = [word for word in words if word.startswith("--")]
    name = words[0] if words[:2] != ["bench", "train"] else "bench train"
    result = CliRunner().invoke(app, [*name.split(), "--help"], env={"COLUMNS": "200", "TERM": "dumb"})
    assert result.exit_code == 0, result.output
    for option in options:
        assert option in result.output, f"{command}: {option}"


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
