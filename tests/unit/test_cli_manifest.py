"""convert and deploy describe a model with the same options, which take the same values."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import typer.main
from typer.testing import CliRunner

import dbinfer
from dbinfer.base.errors import DbinferError, UsageError
from dbinfer.cli.app import app

SHARED = (
    *("task", "labels", "input_size", "layout", "color", "mean", "scale", "resize", "interpolation"),
    *("pad_value", "activation", "threshold", "thresholds", "precision", "decode", "l2_normalize"),
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

    monkeypatch.setattr(dbinfer, "convert", verb)
    monkeypatch.setattr(dbinfer, "deploy", verb)
    found = CliRunner().invoke(app, [*CALLS[command], *words]).exception
    if isinstance(found, DbinferError):
        raise found
    assert isinstance(found, AskedError), found
    return found.options


def parameters(command: str) -> dict[str, Any]:
    return {p.name: p for p in typer.main.get_command(app).commands[command].params}


def test_the_options_are_the_same(subtests: pytest.Subtests) -> None:
    for name in SHARED:
        with subtests.test(name=name):
            one, other = (parameters(command)[name] for command in CALLS)
            assert (one.opts, one.secondary_opts, one.help) == (other.opts, other.secondary_opts, other.help)


def test_values_are_read_alike(monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests) -> None:
    for (words, values), command in itertools.product(
        [
            (["--color", "rgb"], {"color": "RGB"}),
            (["--color", "Gray"], {"color": "GRAY"}),
            (["--input-size", "480x640"], {"height": 480, "width": 640}),
            (["--size", "224"], {"height": 224, "width": 224}),
            (["--labels", "a, b"], {"labels": ["a", "b"]}),
            (["--mean", "1,2,3", "--pad-value", "7"], {"mean": [1.0, 2.0, 3.0], "pad_value": 7}),
            (
                ["--interpolation", "cubic", "--decode", "exact"],
                {"interpolation": "cubic", "decode": "exact"},
            ),
            (["--thresholds", "0.5,1"], {"thresholds": [0.5, 1.0]}),
            (["--l2-normalize"], {"l2_normalize": True}),
        ],
        CALLS,
    ):
        with subtests.test(words=words, values=values, command=command):
            assert asked(monkeypatch, command, *words).values == values


def test_a_layout_is_read_however_it_is_written(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for command in CALLS:
        with subtests.test(command=command):
            assert asked(monkeypatch, command, "--layout", "nchw").layout == "NCHW"


def test_words_that_nobody_knows_are_wrong_usage(
    monkeypatch: pytest.MonkeyPatch, subtests: pytest.Subtests
) -> None:
    for words, command in itertools.product(
        [
            ["--color", "cmyk"],
            ["--layout", "hwc"],
            ["--input-size", "big"],
            ["--task", "guess"],
            ["--scale", "x"],
        ],
        CALLS,
    ):
        with subtests.test(words=words, command=command), pytest.raises(UsageError, match=words[0]):
            asked(monkeypatch, command, *words)
