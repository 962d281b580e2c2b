"""What scoring costs: the terms of one row, measured coefficients for them, and what a host makes of both.

The terms mirror what dbinfer_udf does: `image.decode` decodes JPEGs at a part of their size, `image.resize` halves and
samples.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from dbinfer.base.errors import DataError
from dbinfer_udf.host.limits import fitting
from dbinfer_udf.image.header import FORMATS
from dbinfer_udf.manifest import TASKS, Manifest

__all__ = ["Coefficients", "Load", "Network", "Picture", "row_seconds", "shipped", "statement_seconds"]


# As in dbinfer_udf.engine.isolation: an inference that is shorter runs in the backend
ENGINE_MILLISECONDS = 1.0


@dataclass(frozen=True)
class Picture:
    """An image file by what its header says.

    Attributes:
        format: JPEG, PNG, BMP, TIFF, WebP or GIF; width, height: in pixels; bytes: of the file.
    """

    format: str
    width: int
    height: int
    bytes: float

    @property
    def pixels(self) -> int:
        """How many pixels it has."""
        return self.width * self.height


@dataclass(frozen=True)
class Network:
    """A network as its manifest and its trial know it.

    Attributes:
        width, height, channels: of its input; both: whether both sides of a picture must cover that.
        milliseconds: of an image with one thread, as the trial at deploy measured it.
        batch_milliseconds: of an image within a batch of 32, where that pays.
        size, peak_bytes: of its files, and of the process that tried it.
        compile_milliseconds: that a process takes to load it.
        by_threads: milliseconds of an image by number of threads, where a trial has measured more than one.
        threads: that an inference takes; see `on`.
        isolation: auto, always or never.
        smooth: the runtime decodes JPEGs near the size that is needed, and shrinks by samples.
    """

    name: str
    precision: str
    task: str
    width: int
    height: int
    channels: int
    milliseconds: float
    batch_milliseconds: float | None = None
    size: int = 0
    peak_bytes: int = 0
    compile_milliseconds: float = 0.0
    by_threads: Mapping[str, float] = field(default_factory=dict, hash=False)
    threads: int = 1
    isolation: str = "auto"
    both: bool = True
    smooth: bool = True

    @property
    def in_engine(self) -> bool:
        """Whether the host's engine runs it, where there is one."""
        return self.isolation == "always" or (
            self.isolation == "auto" and self.milliseconds >= ENGINE_MILLISECONDS
        )

    def on(self, cores: int) -> Network:
        """Return the network on as many threads as the runtime gives it where so many cores are a process's own."""
        return replace(self, threads=fitting(cores, self.by_threads))

    @property
    def inference(self) -> float:
        """The milliseconds of an image with its threads."""
        if self.threads == 1:
            return self.milliseconds
        # a number between two measured ones is as busy as the larger: fewer threads wait less for each other
        measured = min(number for number in map(int, self.by_threads) if number >= self.threads)
        work = self.by_threads[str(measured)] * measured / self.by_threads["1"]
        return self.milliseconds * work / self.threads

    def slowed(self, times: float) -> Network:
        """Return the network on a machine where it takes so many times as long."""
        return replace(
            self,
            milliseconds=self.milliseconds * times,
            batch_milliseconds=self.batch_milliseconds and self.batch_milliseconds * times,
            compile_milliseconds=self.compile_milliseconds * times,
        )

    @classmethod
    def of(cls, manifest: Manifest, trial: Mapping[str, Any], **more: Any) -> Network:
        """Return the network of a manifest; `trial` holds what its trial found, as the registry keeps it."""
        chosen = ((trial.get("precision") or {}).get("tried") or {}).get(manifest.precision) or {}
        return cls(
            name=more.pop("name", manifest.name),
            precision=more.pop("precision", manifest.precision),
            task=manifest.task,
            width=manifest.width,
            height=manifest.height,
            channels=manifest.channels,
            # of many images, where precisions were compared; else of three
            milliseconds=chosen.get("milliseconds") or trial["milliseconds"],
            batch_milliseconds=trial.get("batch_milliseconds"),
            peak_bytes=trial.get("peak_bytes") or 0,
            compile_milliseconds=trial.get("compile_milliseconds") or 0.0,
            by_threads=trial.get("by_threads") or {},
            both=manifest.resize in ("standard", "crop"),
            smooth=manifest.decode != "exact" and manifest.interpolation in ("linear", "area"),
            **more,
        )


FORM = 1
SHIPPED = Path(__file__).with_name("shipped.json")
POINTS = Path(__file__).with_name("points.json")


@dataclass(frozen=True)
class Coefficients:
    """What a machine takes.

    Attributes:
        machine: processor, cores, versions, date.
        seconds: of one core, by term.
        crowded: by group of terms, how much longer it takes where all cores work.
        start: seconds before a process scores its first row: `backend` without compiling, `engine`.
        models: networks that were measured, by name; those of another precision as `NAME PRECISION`.
        error: largest and median relative error on statements that were not used for the fit.
        scale: by which those of networks and of pixels were multiplied for another machine; empty for none.
    """

    machine: dict[str, Any]
    seconds: dict[str, float]
    crowded: dict[str, float]
    start: dict[str, float]
    models: dict[str, Network]
    error: dict[str, float] = field(default_factory=dict)
    scale: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON values."""
        return {"form": FORM, **asdict(self)}


def from_dict(values: Mapping[str, Any], name: str) -> Coefficients:
    """Return the coefficients of a file's JSON.

    Raises:
        DataError: it is no such file, or one of another version.
    """
    given = dict(values)
    try:
        if given.pop("form") != FORM:
            raise KeyError
        models = {key: Network(**facts) for key, facts in given.pop("models").items()}
        if not all(isinstance(value, dict) for value in given.values()):
            raise TypeError
        return Coefficients(models=models, **given)
    except (KeyError, TypeError, AttributeError) as err:
        raise DataError(
            f"{name} holds no coefficients of this version", "Measure again: dbinfer plan --calibrate"
        ) from err


def read_coefficients(path: Path) -> Coefficients:
    """Return the coefficients of a file.

    Raises:
        DataError: it cannot be read, or holds something else.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as err:
        raise DataError(f"the coefficients in {path} cannot be read: {err}") from err
    if not isinstance(values, dict):
        raise DataError(f"{path} holds no coefficients", "Measure again: dbinfer plan --calibrate")
    # a report of `dbinfer bench plan` has them among other things
    return from_dict(values.get("coefficients", values), str(path))


def write(path: Path, found: Coefficients) -> None:
    """Keep coefficients in a file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(found.to_dict(), indent=1) + "\n", encoding="utf-8")


@cache
def shipped() -> Coefficients:
    """Return the coefficients that come with dbinfer."""
    return read_coefficients(SHIPPED)


def scaled(found: Coefficients, here: Mapping[str, float]) -> Coefficients:
    """Return coefficients for another machine, by what its probe took (see bench.probe).

    Networks are scaled in their milliseconds. The coefficient of inference stays: with it come also the milliseconds of
    deployed networks, which are another machine's trial.

    Raises:
        DataError: there is no such probe of the machine that was measured.
    """
    there = found.machine.get("probe")
    if not isinstance(there, dict) or not all(_above_zero(there.get(name)) for name in here):
        raise DataError(
            "the coefficients do not say how fast the machine was that they were measured on",
            "Leave out --here, or measure again: dbinfer plan --calibrate",
        )
    networks, pixels = here["infer"] / there["infer"], here["decode"] / there["decode"]
    return replace(
        found,
        seconds={name: value if name == "infer" else value * pixels for name, value in found.seconds.items()},
        start={name: value * pixels for name, value in found.start.items()},
        models={name: network.slowed(networks) for name, network in found.models.items()},
        scale={"networks": networks, "pixels": pixels},
    )


def _above_zero(value: object) -> bool:
    return isinstance(value, int | float) and value > 0


Terms = dict[str, float]
# Groups of terms: each is slowed in its own way where other cores work, too
DECODE, FIT, INFER, FINISH, ROW = "decode", "fit", "infer", "finish", "row"
GROUPS = (DECODE, FIT, INFER, FINISH, ROW)


def part(picture: Picture, network: Network) -> int:
    """Return at which part of its size a picture is decoded: 1, 2, 4 or 8."""
    from dbinfer_udf.image.decode import Target, reduction
    from dbinfer_udf.image.header import Header

    if picture.format != "JPEG" or not network.smooth:
        return 1
    header = Header(picture.format, picture.width, picture.height, 3, int(picture.bytes))
    return reduction(header, Target(network.width, network.height, network.both))


def terms(picture: Picture, network: Network) -> dict[str, Terms]:
    """Return the terms of a row by group."""
    return {
        DECODE: decode_terms(picture, part(picture, network)),
        FIT: fit_terms(picture, network),
        INFER: {"infer": network.inference / 1e3},
        FINISH: finish_terms(picture, network),
        ROW: row_terms(picture, network),
    }


def decode_terms(picture: Picture, part: int) -> Terms:
    """Return those of decoding at 1/part of the size."""
    name = picture.format.lower()
    found = {name: 1.0, f"{name}_byte": picture.bytes, f"{name}_pixel": float(picture.pixels)}
    if picture.format == "JPEG":
        # the inverse transform and the colours work on what comes out, the rest on all that is in the file
        found["jpeg_out"] = picture.pixels / part**2
    return found


def fit_terms(picture: Picture, network: Network) -> Terms:
    """Return those of bringing the decoded pixels into the network's input, as dbinfer_udf.image.resize does it."""
    from dbinfer_udf.image.resize import EXACT, FOUR, ONE, TWO

    by = part(picture, network)
    width, height = picture.width / by, picture.height / by
    most = max(width / network.width, height / network.height)
    values = float(network.width * network.height * network.channels)
    if (width, height) == (network.width, network.height):
        return {"fit": 1.0, "fit_copy": values}
    if most < ONE or not network.smooth:
        return {"fit": 1.0, "fit_grow": values}
    halved = 0.0
    while most > FOUR:
        halved += width * height * network.channels
        most, width, height = most / 2, width / 2, height / 2
    if TWO < most <= EXACT:
        return {"fit": 1.0, "fit_area": width * height * network.channels, "fit_half": halved}
    times = 2 if most <= TWO else 4
    return {"fit": 1.0, "fit_sample": values * times**2, "fit_half": halved}


def finish_terms(picture: Picture, network: Network) -> Terms:
    """Return those of making a result from the output."""
    found = {network.task: 1.0}
    if network.task == "segmentation":
        found["mask_pixel"] = float(picture.pixels)
    return found


def row_terms(picture: Picture, network: Network) -> Terms:
    """Return those of the executor, the fetching of the image and, for the engine, the way there and back."""
    if network.in_engine:
        return {"row_engine": 1.0, "row_engine_byte": picture.bytes}
    return {"row_backend": 1.0, "row_backend_byte": picture.bytes}


def group_seconds(
    found: Coefficients, picture: Picture, network: Network, share: float = 0.0
) -> dict[str, float]:
    """Return the seconds of one row by group: decode, fit, infer, finish and row.

    Args:
        share: of the other cores that work at the same time, 0 to 1; they share caches and memory.
    """
    return {
        group: sum(found.seconds.get(name, 0.0) * amount for name, amount in values.items())
        * (1 + (found.crowded.get(group, 1.0) - 1) * share)
        for group, values in terms(picture, network).items()
    }


def row_seconds(
    found: Coefficients, pictures: Sequence[Picture], network: Network, share: float = 0.0
) -> float:
    """Return the seconds of one core for one row, the mean of some pictures; see group_seconds."""
    rows = [sum(group_seconds(found, picture, network, share).values()) for picture in pictures]
    return sum(rows) / len(rows)


def start_seconds(found: Coefficients, network: Network) -> float:
    """Return the seconds that a fresh process works before its first row."""
    if network.in_engine:
        return found.start.get("engine", 0.0)
    return found.start.get("backend", 0.0) + network.compile_milliseconds / 1e3


@dataclass(frozen=True)
class Load:
    """What the processes of one host have to do.

    Attributes:
        rows: of each process; where they share a scan, as parallel workers do, in equal parts.
        cores: of the host.
        fresh: how many of the processes are new.
    """

    rows: tuple[float, ...]
    cores: int
    fresh: int = 0


def statement_seconds(
    found: Coefficients, pictures: Sequence[Picture], network: Network, load: Load
) -> float:
    """Return the seconds until the last process has scored its last row."""
    # in rows, so that a start waits for cores as rows do; workers that share a scan share it out, too
    start = start_seconds(found, network) / row_seconds(found, pictures, network)
    fresh = start * load.fresh / len(load.rows)

    def seconds(processes: int) -> float:
        row = row_seconds(found, pictures, network, crowd(processes, load.cores))
        return row * max(1.0, processes / load.cores)

    return last_end(sorted(rows + fresh for rows in load.rows), seconds)


def crowd(processes: int, cores: int) -> float:
    """Return the share of the other cores that work when one of them does."""
    return (min(processes, cores) - 1) / (cores - 1) if cores > 1 else 0.0


def last_end(rows: Sequence[float], seconds: Callable[[int], float]) -> float:
    """Return when the last of the processes ends, which get equal shares of the cores.

    Args:
        rows: of each process, ascending.
        seconds: that each takes for a row where so many work.
    """
    total, done = 0.0, 0.0
    for number, mine in enumerate(rows):
        if mine > done:
            total += (mine - done) * seconds(len(rows) - number)
            done = mine
    return total


# of every picture that is resized, so it says nothing about the way in which this one is
COMMON = {"fit"}
SIDE = 224


def missing(found: Coefficients, pictures: Iterable[Picture], network: Network) -> tuple[str, ...]:
    """Return the steps that count as nothing.

    One term of a step may lack its coefficient: a fit leaves out what it cannot tell from nothing.
    """
    names: dict[str, None] = {}
    for picture in pictures:
        titles = {
            DECODE: f"decoding {picture.format}",
            FIT: "resizing",
            INFER: "inference",
            FINISH: f"results of {network.task}",
            ROW: "the way to the engine" if network.in_engine else "a row in the backend",
        }
        for group, amounts in terms(picture, network).items():
            if not found.seconds.keys() & ({name for name, amount in amounts.items() if amount} - COMMON):
                names[titles[group]] = None
    return tuple(names)


def lacking(found: Coefficients) -> tuple[str, ...]:
    """Return all steps that count as nothing, of images and networks of any kind."""
    # copied, made smaller at a part of the size, and made larger
    sizes = ((SIDE, SIDE), (3 * SIDE, 3 * SIDE), (SIDE // 2, SIDE // 2))
    pictures = [Picture(name, *size, bytes=5e4) for name in FORMATS for size in sizes]
    slow = Network("any", "f32", "any", SIDE, SIDE, 3, milliseconds=10.0)
    networks = [
        replace(slow, task=task, isolation=isolation) for task in TASKS for isolation in ("always", "never")
    ]
    return tuple(sorted({step for network in networks for step in missing(found, pictures, network)}))


Sample = tuple[Mapping[str, float], float]


def fit(samples: Sequence[Sample], wholes: Sequence[float] = ()) -> dict[str, float]:
    """Return seconds by term for (terms, seconds) of many samples.

    Args:
        wholes: seconds to which each sample's error is compared; those of the sample where none are given.

    A term that would get a negative coefficient is left out, the worst one first: noise makes such where two terms
    grow together.
    """
    import numpy as np

    names = sorted({name for amounts, _ in samples for name in amounts})
    seconds = np.array([taken for _, taken in samples])
    against = np.array(wholes) if len(wholes) else seconds
    while names:
        matrix = np.array([[amounts.get(name, 0.0) for name in names] for amounts, _ in samples])
        weighted = matrix / against[:, None]
        # columns differ by many powers of ten
        size = np.linalg.norm(weighted, axis=0)
        size[size == 0] = 1.0
        found = np.linalg.lstsq(weighted / size, seconds / against, rcond=None)[0]
        if found.min() >= 0:
            return {name: float(value) for name, value in zip(names, found / size, strict=True)}
        names.pop(int(found.argmin()))
    return {}
