"""`import dbinfer` offers every command as a function of one shape; neither it nor `dbinfer --help` imports much."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import subprocess
import sys
import typing
from collections.abc import Callable
from typing import Any

import pytest
import typer.main

import dbinfer
from dbinfer.cli.app import app

# It becomes the program of that name, which has nothing to hand over
SHELL_ONLY = {"psql"}
COMMANDS = {name.replace("-", "_") for name in typer.main.get_command(app).commands} - SHELL_ONLY  # type: ignore[attr-defined]
TAIL = ("options", "dsn", "progress")
HEAVY = ("tensorflow", "keras", "openvino", "cv2", "numpy", "onnx", "onnxruntime", "nncf", "horovod")
HEAVY += ("matplotlib", "PIL", "sklearn", "sqlalchemy", "rich", "typer", "dbinfer.cli")


def verb(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = getattr(dbinfer, name)
    return found


def test_every_command_is_a_function() -> None:
    missing = {name for name in COMMANDS if name not in dbinfer.__all__ or not inspect.isfunction(verb(name))}
    assert missing == set()


def test_verbs_have_one_shape() -> None:
    """Inputs first, then options, dsn and progress as far as the verb takes them, in this order."""
    for name in COMMANDS:
        _has_the_shape(name)


def _has_the_shape(name: str) -> None:
    parameters = inspect.signature(verb(name)).parameters
    tail = [word for word in parameters if word in TAIL]
    assert list(parameters)[len(parameters) - len(tail) :] == tail == [word for word in TAIL if word in tail]
    assert [parameters[word].default for word in tail if word != "progress"] == [None] * (
        len(tail) - ("progress" in tail)
    )
    if "progress" in parameters:
        assert parameters["progress"].default is dbinfer.silent


def test_verbs_return_a_frozen_report_and_take_frozen_options() -> None:
    for name in COMMANDS:
        _is_frozen(name)


def _is_frozen(name: str) -> None:
    hints = typing.get_type_hints(verb(name))
    assert issubclass(hints["return"], dbinfer.Report)
    kinds = [hints["return"]]
    if "options" in hints:
        (options,) = [kind for kind in typing.get_args(hints["options"]) if kind is not type(None)]
        assert options.__name__ == f"{name.title().replace('_', '')}Options"
        kinds.append(options)
    for kind in kinds:
        assert kind.__name__ in dbinfer.__all__
        assert kind.__dataclass_params__.frozen, kind
    if "options" in hints:
        required = [f.name for f in dataclasses.fields(options) if f.default is f.default_factory]
        assert required in ([], ["calibrate"]), "everything but a query has a default"


def test_a_verb_is_the_function_whatever_was_imported_before() -> None:
    """The package of a command bears its name: importing it must not take the place of the function."""
    code = (
        "import dbinfer.score, dbinfer.models.registry; from dbinfer import *; from dbinfer.score import ScoreOptions; "
        "functions = score, dbinfer.score, dbinfer.models, dbinfer.deploy; "
        "print(*(callable(function) for function in functions), 'score' in dir(dbinfer))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["True"] * 5


def test_what_dbinfer_does_not_offer_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'dbinfer' has no attribute 'nothing'"):
        dbinfer.nothing  # type: ignore[attr-defined]  # noqa: B018


def test_importing_dbinfer_imports_nothing_heavy() -> None:
    code = (
        "import sys, dbinfer; [getattr(dbinfer, name) for name in dbinfer.__all__]; "
        f"print([name for name in {HEAVY} if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


PACKAGES = (
    "dbinfer",
    "dbinfer.models",
    "dbinfer.install",
    "dbinfer.server",
    "dbinfer.cli",
    "dbinfer.convert",
)


def test_all_is_there_and_sorted(subtests: pytest.Subtests) -> None:
    for name in PACKAGES:
        with subtests.test(name=name):
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
