"""What the packages export is what they say, and can be imported without a server, TensorFlow or OpenVINO."""

from __future__ import annotations

import importlib
import subprocess
import sys

import pytest

PACKAGES = (
    "dbinfer",
    "dbinfer.models",
    "dbinfer.install",
    "dbinfer.server",
    "dbinfer.cli",
    "dbinfer.convert",
)


@pytest.mark.parametrize("name", PACKAGES)
def test_all_is_there_and_sorted(name: str) -> None:
    module = importlib.import_module(name)
    assert module.__doc__
    exported = module.__all__
    assert [member for member in exported if not hasattr(module, member)] == []
    assert list(exported) == sorted(
        exported, key=lambda member: (not member.isupper(), not member[0].isupper(), member)
    )


def test_the_command_line_starts_without_heavy_imports() -> None:
    """`dbinfer --help` needs its table and Typer: no command, no verb, and nothing that draws or computes."""
    code = (
        "import atexit, sys; from dbinfer.cli import main; "
        "atexit.register(lambda: print('\\nimported:', *sorted(sys.modules))); main(['--help'])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = set(done.stdout.rpartition("imported:")[2].split())
    ours = {name for name in imported if name.startswith("dbinfer")}
    assert ours == {
        f"dbinfer{name}"
        for name in ("", ".base", ".base.errors", ".base.lazy", ".base.version", ".cli", ".cli.app")
    }
    assert imported & {"numpy", "psycopg2", "rich.console", "sqlalchemy", "jinja2", "markdown_it"} == set()
