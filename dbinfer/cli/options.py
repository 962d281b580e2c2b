"""Options of commands: those of a dataclass become the shell's; how texts become values; what describes a model."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import MISSING, Field, dataclass, is_dataclass
from pathlib import Path
from typing import Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer
from typer.main import get_command_name
from typer.models import CommandInfo

from dbinfer.base.errors import UsageError
from dbinfer.base.options import Shell, option, options_of
from dbinfer_udf import manifest as m
from dbinfer_udf.tasks import TASKS

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Connection string or URL. Default: $DBINFER_DSN, else libpq's variables, else the embedded server.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]
KEYWORD = inspect.Parameter.KEYWORD_ONLY


class Only(frozenset[str]):
    """Which fields of a dataclass a command has as options: Annotated[TrainOptions, Only(["lr", "batch"])]."""


class _Group(NamedTuple):
    """The options of a dataclass, which stand for one argument of a command."""

    kind: Any
    only: Only | None
    as_dict: bool

    def options(self) -> list[tuple[Field[Any], Shell]]:
        return [one for one in options_of(self.kind) if self.only is None or one[0].name in self.only]

    def parameters(self) -> list[inspect.Parameter]:
        """Return what Typer makes options of."""
        kinds = get_type_hints(self.kind)
        return [_parameter(entry, shell, kinds[entry.name]) for entry, shell in self.options()]

    def filled(self, given: dict[str, Any], named: Callable[[str], bool]) -> Any:
        """Return the dataclass, or the dict of what the user has named; nothing given means the default."""
        values = {
            entry.name: shell.read(entry.name.replace("_", "-"), value) if shell.read else value
            for entry, shell in self.options()
            if (value := given[entry.name]) not in (None, []) and (not self.as_dict or named(entry.name))
        }
        return values if self.as_dict else self.kind(**values)


def _group(annotation: Any) -> _Group | None:
    """Return the options that an argument stands for: of a dataclass, Annotated[it, Only], or Annotated[dict, it]."""
    parts = get_args(annotation) if get_origin(annotation) is Annotated else (annotation,)
    kind = next((part for part in parts if isinstance(part, type) and is_dataclass(part)), None)
    only = next((part for part in parts if isinstance(part, Only)), None)
    return _Group(kind, only, get_origin(parts[0]) is dict) if kind else None


def _parameter(entry: Field[Any], shell: Shell, kind: Any) -> inspect.Parameter:
    default = entry.default
    if shell.read or shell.typed or default is MISSING:
        kind, default = shell.typed or str, None
    if shell.needed:
        default = inspect.Parameter.empty
    more: dict[str, Any] = {} if kind is bool else {"min": shell.least, "metavar": shell.metavar}
    spellings = shell.spellings or _spellings(entry.name, default)
    told = typer.Option(*spellings, help=shell.help, **more)
    return inspect.Parameter(entry.name, KEYWORD, default=default, annotation=Annotated[kind, told])


def _spellings(name: str, default: Any) -> tuple[str, ...]:
    word = name.replace("_", "-")
    return (f"--{word}/--no-{word}" if default is True else f"--{word}",)


def spread(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of the dataclasses that are types of its arguments; it gets these filled."""
    own = inspect.signature(command, eval_str=True).parameters
    groups = {name: group for name, one in own.items() if (group := _group(one.annotation))}

    @functools.wraps(command)
    def run(dbinfer_context: typer.Context, **given: Any) -> None:
        def named(option: str) -> bool:
            source = dbinfer_context.get_parameter_source(option)
            return source is not None and source.name == "COMMANDLINE"

        filled = {name: group.filled(given, named) for name, group in groups.items()}
        command(**{name: given[name] for name in own if name not in groups}, **filled)

    if not groups:
        return command
    # Typer makes options of the parameters that it sees; this is what it sees
    seen = [inspect.Parameter("dbinfer_context", KEYWORD, annotation=typer.Context)]
    for name, one in own.items():
        parts = groups[name].parameters() if name in groups else [one]
        seen += [part.replace(kind=KEYWORD) for part in parts]
    run.__signature__ = inspect.Signature(seen)  # type: ignore[attr-defined]
    return run


def read_labels(_: str, text: str) -> list[str]:
    """Return the labels of `a,b,c`, or of the lines of `@FILE`."""
    if not text.startswith("@"):
        return [label.strip() for label in text.split(",")]
    path = Path(text[1:])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"the labels file {path} cannot be read: {err}") from err
    # not every space: the wide one of Chinese is a label of networks that read
    return [label for label in (line.strip(" \t") for line in lines) if label]


def numbers(option: str, text: str) -> list[float]:
    """Return the numbers of `1,2,3`."""
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as err:
        raise UsageError(
            f"--{option} is {text!r}, but must be numbers such as 255 or 123.7,116.3,103.5"
        ) from err


def size(option: str, text: str) -> tuple[int, int]:
    """Return (height, width) of `224` or `480x640` (height x width)."""
    match = re.fullmatch(r"(\d{1,5})(?:[xX](\d{1,5}))?", text)
    if not match:
        raise UsageError(
            f"--{option} is {text!r}, but must be pixels such as 224 or 480x640 (height x width)"
        )
    return int(match[1]), int(match[2] or match[1])


@dataclass(frozen=True)
class Stated:
    """What the user says of a model: keys of its manifest, and the layout of its input."""

    task: str | None = option(None, "What the model does: {choices}.", choices=tuple(TASKS))
    labels: list[str] | None = option(
        None, "Class names: a,b,c, or @FILE with one name per line.", read=read_labels
    )
    input_size: tuple[int, int] | None = option(
        None,
        "Size of the input in pixels, if the model leaves it open: 224, or 480x640 (height x width).",
        read=size,
    )
    layout: str | None = option(None, "NHWC or NCHW, if the input's shape leaves it open.")
    color: str | None = option(None, "Order of the channels in training: {choices}.", choices=m.COLORS)
    mean: list[float] | None = option(
        None,
        "One number or one per channel, in grey levels 0..255: x = (pixel - mean) / scale.",
        read=numbers,
    )
    scale: list[float] | None = option(
        None,
        "One number or one per channel, in grey levels 0..255; 255 for an input of 0..1.",
        read=numbers,
    )
    resize: str | None = option(None, "How images get the size of the input: {choices}.", choices=m.RESIZES)
    interpolation: str | None = option(
        None, "Interpolation of the resize: {choices}.", choices=m.INTERPOLATIONS
    )
    pad_value: int | None = option(None, "Grey level of the padding, 0..255.")
    activation: str | None = option(None, "Turns raw outputs into scores: {choices}.", choices=m.ACTIVATIONS)
    threshold: float | None = option(
        None,
        "Score above which a pixel belongs to the mask of a single class, and from which a box or a class of "
        "classify_all is returned.",
    )
    thresholds: list[float] | None = option(
        None, "One threshold per class of classify_all: 0.5,0.3,0.8. Default: --threshold.", read=numbers
    )
    iou_threshold: float | None = option(
        None, "Of two boxes of a class that overlap by more than this, the lower one is dropped; 1 keeps all."
    )
    max_detections: int | None = option(None, "Most boxes returned for an image, or for each of its tiles.")
    tile: bool | None = option(
        None,
        "Put images through the network in overlapping tiles as large as its input, not shrunk as a whole.",
        "--tile/--no-tile",
    )
    tile_overlap: float | None = option(None, "Part of its sides by which tiles overlap, 0 to 0.5.")
    precision: str | None = option(None, "Precision of inference: {choices}.", choices=m.PRECISIONS)
    decode: str | None = option(
        None, "fast (decodes JPEGs at a reduced scale where that is enough) or exact."
    )
    l2_normalize: bool | None = option(
        None, "Scale embeddings to length 1.", "--l2-normalize/--no-l2-normalize"
    )

    @property
    def values(self) -> dict[str, Any]:
        """The keys of the manifest; None where nothing was said."""
        return {key: value for key, value in vars(self).items() if key != "layout"}


def spread_all(group: typer.Typer, name: str | None = None) -> None:
    """Spread the commands of a group; with a name only that one is left, and no options of others are imported."""
    if name:
        group.registered_commands = [one for one in group.registered_commands if _name(one) == name]
        group.registered_groups = [one for one in group.registered_groups if one.name == name]
    for command in group.registered_commands:
        command.callback = command.callback and spread(command.callback)
    for inner in group.registered_groups:
        if inner.typer_instance:
            spread_all(inner.typer_instance)


def _name(command: CommandInfo) -> str:
    return command.name or get_command_name(getattr(command.callback, "__name__", ""))
