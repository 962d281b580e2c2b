"""A training job from option names and values: of a TOML or JSON file, the command line, or a checkpoint."""

from __future__ import annotations

import json
import sys
from dataclasses import MISSING, Field, fields
from pathlib import Path
from typing import Any

from dbinfer.errors import UsageError
from dbinfer.train.options import TrainJob

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib


def read_options(path: Path) -> dict[str, Any]:
    """Return the options that a TOML or JSON file sets, checked for names and types.

    Raises:
        UsageError: the file cannot be read, or names an unknown option or a value of the wrong kind.
    """
    try:
        text = Path(path).read_text(encoding="utf-8")
        values = json.loads(text) if Path(path).suffix == ".json" else tomllib.loads(text)
    except OSError as err:
        raise UsageError(f"the configuration {path} cannot be read: {err.strerror}") from err
    except ValueError as err:
        raise UsageError(f"cannot parse the configuration {path}: {err}") from err
    if not isinstance(values, dict):
        raise UsageError(
            f"the configuration {path} contains a {type(values).__name__}, but must contain an object"
        )
    return values


def make_job(values: dict[str, Any]) -> TrainJob:
    """Make the record from option names and values.

    Raises:
        UsageError: an option is unknown, missing, of the wrong kind, or out of range.
    """
    values = renamed(values)
    known = {entry.name: entry for entry in fields(TrainJob)}
    for key, value in values.items():
        if key not in known:
            raise UsageError(f"unknown option {key!r}", f"Options: {', '.join(known)}.")
        _check_kind(key, known[key], value)
    missing = [key for key, entry in known.items() if _required(entry) and not values.get(key)]
    if missing:
        raise UsageError(f"the option {missing[0]} is missing", "Example: dbinfer train digits --data digits")
    return TrainJob(**{key: _widened(known[key], value) for key, value in values.items()})


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Return the values under today's names: files and checkpoints of 0.1.0 say `options` for the network's."""
    return {"network_options" if key == "options" else key: value for key, value in values.items()}


KINDS: dict[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "dict[str, Any]": (dict,),
}


def _check_kind(key: str, entry: Field[Any], value: Any) -> None:
    # To Python a bool is an int, but `epochs = true` is a mistake
    right = isinstance(value, KINDS[entry.type]) and (entry.type == "bool" or not isinstance(value, bool))
    if not right:
        raise UsageError(f"{key} is {value!r}, but must have type {str(entry.type).split('[')[0]}")


def _widened(entry: Field[Any], value: Any) -> Any:
    return float(value) if entry.type == "float" else value


def _required(entry: Field[Any]) -> bool:
    return entry.default is MISSING and entry.default_factory is MISSING
