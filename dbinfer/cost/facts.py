"""What the cost of a row depends on: the image file and the network."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dbinfer_udf.manifest import Manifest
from dbinfer_udf.threads import fitting

# As in dbinfer_udf.isolation: an inference that is shorter runs in the backend
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
