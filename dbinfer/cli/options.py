"""Options and output that commands share: values as typed, what describes a model, settings; strangers' text is
made harmless here.
"""

from __future__ import annotations

import functools
import inspect
import json
import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from dbinfer.base.errors import HARMFUL, UsageError, harmless, one_line

Dsn = Annotated[
    str | None,
    typer.Option(
        "--dsn",
        help="Connection string or URL. Default: $DBINFER_DSN, else libpq's variables, else the embedded server.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the report as JSON.")]

Rows = Sequence[Sequence[Any]]
# Beside the cells of a table: a border and two spaces a column, and the last border
BORDER = 3
SHORT = 12


class Screen(Console):
    """A console for texts of anybody: labels, names of files and models, the server's words.

    What would control a terminal is shown, not sent, and brackets are no markup: that can hold a link, or end a line
    with an error of Rich.
    """

    def __init__(self, **settings: Any) -> None:
        super().__init__(**{"highlight": False, "markup": False, **settings})

    def print(self, *objects: Any, **settings: Any) -> None:
        """Print texts and renderables; a text whole, because Rich drops some signs silently."""
        super().print(*(harmless(one) if isinstance(one, str) else one for one in objects), **settings)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        """Yield the pieces that are printed; colours and the like are no part of their text."""
        for piece in super().render(renderable, options):
            harmful = not piece.control and HARMFUL.search(piece.text)
            yield Segment(harmless(piece.text), piece.style) if harmful else piece


console = Screen()
err_console = Screen(stderr=True)


def say(text: str, err: bool = False) -> None:
    """Print one line as it is, whatever the terminal's width."""
    typer.echo(one_line(text), err=err)


def print_json(value: Any) -> None:
    """Print one JSON value; dates as text."""
    text = json.dumps(value, indent=2, default=str, ensure_ascii=False)
    typer.echo(HARMFUL.sub(lambda found: f"\\u{ord(found[0]):04x}", text))


def print_table(title: str, columns: Sequence[str], rows: Rows, drop: Sequence[str] = ()) -> None:
    """Print a table without breaking a word; None as an empty cell.

    What is no terminal gets all columns in full width. On a terminal that is too narrow the columns of `drop` are left
    out, the first ones first; where that is not enough each row is printed as lines of its own.
    """
    title = harmless(title)
    cells = [["" if cell is None else harmless(str(cell)) for cell in row] for row in rows]
    kept, left = list(columns), list(drop)
    while (widths := _widths(kept, _select(columns, kept, cells))) is None and left:
        kept.remove(left.pop(0))
    if widths is None:
        _print_records(title, columns, cells)
        return
    shown = Table(title=Text(title), title_justify="left", header_style="bold")
    for column, width in zip(kept, widths, strict=True):
        shown.add_column(Text(column), width=width)
    for row in _select(columns, kept, cells):
        shown.add_row(*map(Text, row))  # as Text: brackets in a name are no markup
    room = max(sum(widths) + BORDER * len(widths) + 1, cell_len(title))
    # Rich takes a pipe for a terminal of 80 columns
    out = console if console.is_terminal else Screen(file=console.file, width=room)
    out.print(shown)
    gone = [column for column in columns if column not in kept]
    if gone:
        out.print(f"left out for want of room: {', '.join(gone)}; --json has all", style="dim")


def _select(columns: Sequence[str], kept: Sequence[str], cells: list[list[str]]) -> list[list[str]]:
    return [[cell for column, cell in zip(columns, row, strict=True) if column in kept] for row in cells]


def _widths(columns: Sequence[str], cells: list[list[str]]) -> list[int] | None:
    """Return the width of each column; None where the longest words do not fit side by side."""
    texts = list(zip(columns, *cells, strict=True))
    full = [max(cell_len(line) for cell in column for line in cell.split("\n")) for column in texts]
    least = [max(map(_least, column)) for column in texts]
    room = console.width - BORDER * len(columns) - 1 if console.is_terminal else sum(full)
    if sum(least) > room:
        return None
    widths, spare = list(least), room - sum(least)
    while spare > 0 and widths != full:
        # one more for the column that lacks least: short columns become whole before long ones get lines
        index = min((i for i in range(len(full)) if widths[i] < full[i]), key=lambda i: full[i] - widths[i])
        widths[index], spare = widths[index] + 1, spare - 1
    return widths


def _least(cell: str) -> int:
    """Return the width that a cell needs: its longest word; a short one stays whole, or 1.9 MB would take two lines."""
    lines = cell.split("\n")
    return max(
        len(line) if len(line) <= SHORT else max(map(cell_len, line.split()), default=0) for line in lines
    )


def _print_records(title: str, columns: Sequence[str], cells: list[list[str]]) -> None:
    console.print(Text(title, style="bold", overflow="ignore"))
    for row in cells:
        console.print()
        for column, cell in zip(columns, row, strict=True):
            if cell:
                console.print(Text(f"{column}: {cell}", overflow="ignore"))


def bytes_text(size: float | None) -> str:
    """Return a size in bytes as people write it: 1.2 MB."""
    if size is None:
        return ""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} GB"


def read_labels(text: str | None) -> list[str] | None:
    """Return the labels of `a,b,c`, or of the lines of `@FILE`."""
    if text is None:
        return None
    if not text.startswith("@"):
        return [label.strip() for label in text.split(",")]
    path = Path(text[1:])
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as err:
        raise UsageError(f"the labels file {path} cannot be read: {err}") from err
    return [line.strip() for line in lines if line.strip()]


def numbers(option: str, text: str | None) -> list[float] | None:
    """Return the numbers of `1,2,3`."""
    if text is None:
        return None
    try:
        return [float(part) for part in text.split(",")]
    except ValueError as err:
        raise UsageError(
            f"--{option} is {text!r}, but must be numbers such as 255 or 123.7,116.3,103.5"
        ) from err


def size(option: str, text: str | None) -> tuple[int, int] | None:
    """Return (height, width) of `224` or `480x640` (height x width)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})(?:[xX](\d{1,5}))?", text)
    if not match:
        raise UsageError(
            f"--{option} is {text!r}, but must be pixels such as 224 or 480x640 (height x width)"
        )
    return int(match[1]), int(match[2] or match[1])


COUNTS = {"": 1, "k": 1e3, "m": 1e6, "g": 1e9, "b": 1e9, "t": 1e12}
HOURS = {"": 1, "h": 1, "m": 1 / 60, "min": 1 / 60, "s": 1 / 3600}
AMOUNT = r"((?:\d+(?:\.\d+)?|\.\d+)(?:e[+-]?\d+)?)"


def count(option: str, text: str | None) -> float | None:
    """Return the number of `50M`, `1.5k`, `2000000` or `2e6`."""
    if text is None:
        return None
    match = re.fullmatch(AMOUNT + r"\s*([kmgbt]?)", text.strip().lower())
    if not match or not float(match[1]):
        raise UsageError(f"--{option} is {text!r}, but must be a number above 0 such as 2000000, 1.5k or 50M")
    return float(match[1]) * COUNTS[match[2]]


def hours(option: str, text: str | None) -> float | None:
    """Return the hours of `6`, `6h`, `90m` or `30s`."""
    if text is None:
        return None
    match = re.fullmatch(AMOUNT + r"\s*(h|m|min|s|)", text.strip().lower())
    if not match or not float(match[1]):
        raise UsageError(f"--{option} is {text!r}, but must be a time above 0 such as 6, 6h or 90m")
    return float(match[1]) * HOURS[match[2]]


def pixels(option: str, text: str | None) -> tuple[int, int] | None:
    """Return (width, height) of `500x375` (width x height)."""
    if text is None:
        return None
    match = re.fullmatch(r"(\d{1,5})[xX](\d{1,5})", text.strip())
    if not match:
        raise UsageError(f"--{option} is {text!r}, but must be width x height in pixels such as 500x375")
    return int(match[1]), int(match[2])


Isolation = Annotated[
    str | None,
    typer.Option(
        help="Whether the host's engine runs models, outside of the database's processes: "
        "auto, always or never. Default: auto."
    ),
]
ModelIsolation = Annotated[
    str | None,
    typer.Option("--isolation", help="The same for this model alone: auto, always or never."),
]
Usage = Annotated[
    str | None,
    typer.Option(
        help="Count who scores how many rows with which model (`dbinfer usage`): on or off. Default: off."
    ),
]
EngineDir = Annotated[
    str | None,
    typer.Option(help="Folder of the engine's sockets on every host. Default: below /run or /tmp."),
]
EngineIdle = Annotated[
    int | None,
    typer.Option(min=1, help="Seconds after which an engine that nobody asks ends. Default: 600."),
]
EngineMemory = Annotated[
    int | None, typer.Option(min=1, help="Memory of all models of an engine. Default: half of the host's.")
]


class Stated(NamedTuple):
    """What the user said of a model: keys of the manifest, and the layout of its input."""

    values: dict[str, Any]
    layout: str | None


def stated(
    *,
    task: Annotated[
        str | None, typer.Option(help="classification, segmentation, embedding, detection or tensor.")
    ] = None,
    labels: Annotated[
        str | None, typer.Option(help="Class names: a,b,c, or @FILE with one name per line.")
    ] = None,
    input_size: Annotated[
        str | None,
        typer.Option(
            "--input-size",
            "--size",
            help="Size of the input in pixels, if the model leaves it open: 224, or 480x640 (height x width).",
        ),
    ] = None,
    layout: Annotated[
        str | None, typer.Option(help="NHWC or NCHW, if the input's shape leaves it open.")
    ] = None,
    color: Annotated[
        str | None, typer.Option(help="Order of channels in training: RGB, BGR or GRAY.")
    ] = None,
    mean: Annotated[
        str | None,
        typer.Option(
            help="One number or one per channel, in grey levels 0..255: x = (pixel - mean) / scale."
        ),
    ] = None,
    scale: Annotated[
        str | None,
        typer.Option(help="One number or one per channel, in grey levels 0..255; 255 for an input of 0..1."),
    ] = None,
    resize: Annotated[
        str | None, typer.Option(help="standard, crop, fit_to_window or fit_to_window_letterbox.")
    ] = None,
    interpolation: Annotated[str | None, typer.Option(help="linear, area, cubic or nearest.")] = None,
    pad_value: Annotated[int | None, typer.Option(help="Grey level of the padding, 0..255.")] = None,
    activation: Annotated[
        str | None, typer.Option(help="Turns raw outputs into scores: softmax, sigmoid or none.")
    ] = None,
    threshold: Annotated[
        float | None,
        typer.Option(
            help="Score above which a pixel belongs to the mask of a single class, or a box is returned."
        ),
    ] = None,
    iou_threshold: Annotated[
        float | None,
        typer.Option(help="Overlap above which the lower of two boxes of a class is dropped; 1: none is."),
    ] = None,
    max_detections: Annotated[int | None, typer.Option(help="Most boxes returned for an image.")] = None,
    precision: Annotated[
        str | None, typer.Option(help="Inference precision: auto, f32, bf16 or f16.")
    ] = None,
    decode: Annotated[
        str | None,
        typer.Option(help="fast (decodes JPEGs at a reduced scale where that is enough) or exact."),
    ] = None,
    l2_normalize: Annotated[bool | None, typer.Option(help="Scale embeddings to length one.")] = None,
) -> Stated:
    """Return the words of the command line as the manifest takes them; None where nothing was said."""
    values = {
        "task": task,
        "labels": read_labels(labels),
        "input_size": size("input-size", input_size),
        "color": color,
        "mean": numbers("mean", mean),
        "scale": numbers("scale", scale),
        "resize": resize,
        "interpolation": interpolation,
        "pad_value": pad_value,
        "activation": activation,
        "threshold": threshold,
        "iou_threshold": iou_threshold,
        "max_detections": max_detections,
        "precision": precision,
        "decode": decode,
        "l2_normalize": l2_normalize,
    }
    return Stated(values, layout)


def takes_manifest(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of `stated`; it gets what they say as its argument `said`."""
    shared = inspect.signature(stated, eval_str=True).parameters
    own = inspect.signature(command, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:
        command(**{k: v for k, v in given.items() if k in own}, said=stated(**{k: given[k] for k in shared}))

    # Typer makes options of the parameters that it sees; this is what it sees
    seen = [*(p for p in own.values() if p.name != "said"), *shared.values()]
    keyword = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in seen]
    run.__signature__ = inspect.Signature(keyword)  # type: ignore[attr-defined]
    return run
