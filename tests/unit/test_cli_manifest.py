"""convert and deploy describe a model with the same options, which take the same values."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

from dbinfer.base.errors import DbinferError, UsageError
from dbinfer.cli.app import app

SHARED = (
    *("task", "labels", "input_size", "layout", "color", "mean", "scale", "resize", "interpolation"),
    *("pad_value", "activation", "threshold", "precision", "decode", "l2_normalize"),
)
CALLS = {"convert": ["convert", "net.onnx", "-o", "net.xml"], "deploy": ["deploy", "net.xml"]}


class AskedError(Exception):
    """The verb was called with these options."""

    def __init__(self, options: Any) -> None:
        self.options = options


def asked(monkeypatch: pytest.MonkeyPatch, command: str, *words: str) -> Any:
    """Return the options that a command line gives to its verb."""

    def verb(*given: Any) -> None:
        raise AskedError(next(value for value in given if hasattr(value, "values")))

    monkeypatch.setattr(import_module("dbinfer.convert"), "convert", verb)
    monkeypatch.setattr(import_module("dbinfer.models"), "deploy", verb)
    found = CliRunner().invoke(app, [*CALLS[command], *words]).exception
    if isinstance(found, DbinferError):
        raise found
    assert isinstance(found, AskedError), found
    return found.options


def parameters(command: str) -> dict[str, Any]:
    return {p.name: p for p in typer.main.get_command(app).commands[command].params}


@pytest.mark.parametrize("name", SHARED)
def test_the_options_are_the_same(name: str) -> None:
    one, other = (parameters(command)[name] for command in CALLS)
    assert (one.opts, one.secondary_opts, one.help) == (other.opts, other.secondary_opts, other.help)


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize(
    ("words", "values"),
    [
        (["--color", "rgb"], {"color": "RGB"}),
        (["--color", "Gray"], {"color": "GRAY"}),
        (["--input-size", "480x640"], {"height": 480, "width": 640}),
        (["--size", "224"], {"height": 224, "width": 224}),
        (["--labels", "a, b"], {"labels": ["a", "b"]}),
        (["--mean", "1,2,3", "--pad-value", "7"], {"mean": [1.0, 2.0, 3.0], "pad_value": 7}),
        (["--interpolation", "cubic", "--decode", "exact"], {"interpolation": "cubic", "decode": "exact"}),
        (["--l2-normalize"], {"l2_normalize": True}),
    ],
)
def test_values_are_read_alike(
    monkeypatch: pytest.MonkeyPatch, command: str, words: list[str], values: dict[str, Any]
) -> None:
    assert asked(monkeypatch, command, *words).values == values


@pytest.mark.parametrize("command", CALLS)
def test_a_layout_is_read_however_it_is_written(monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    assert asked(monkeypatch, command, "--layout", "nchw").layout == "NCHW"


@pytest.mark.parametrize("command", CALLS)
@pytest.mark.parametrize(
    "words",
    [
        ["--color", "cmyk"],
        ["--layout", "hwc"],
        ["--input-size", "big"],
        ["--task", "guess"],
        ["--scale", "x"],
    ],
)
def test_words_that_nobody_knows_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, command: str, words: list[str]
) -> None:
    with pytest.raises(UsageError, match=words[0]):
        asked(monkeypatch, command, *words)
