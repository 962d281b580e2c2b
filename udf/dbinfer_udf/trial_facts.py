"""What a trial may take, what it is shown, and what it found."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Dict, NamedTuple, Optional

from .batch_rows import pays
from .threads import fitting


class Limits(NamedTuple):
    """What a model may take.

    Attributes:
        start_seconds: until it is compiled; includes the start of Python and the import of OpenVINO.
        image_seconds: for one image, with one thread.
        memory_bytes: of the whole process.
    """

    start_seconds: float = 120.0
    image_seconds: float = 30.0
    memory_bytes: int = 4 << 30

    @classmethod
    def from_settings(cls, settings: Dict[str, str]) -> Limits:
        """Return the limits that the settings of the database name; those that they do not name are the defaults."""
        return cls(
            float(settings.get("max_compile_seconds", cls().start_seconds)),
            float(settings.get("max_inference_seconds", cls().image_seconds)),
            int(settings.get("max_model_mb", cls().memory_bytes >> 20)) << 20,
        )


@dataclass(frozen=True)
class Result:
    """What a model took.

    Attributes:
        compile_milliseconds: to compile it.
        milliseconds: processor time of an image with one thread, the median.
        peak_bytes: largest resident memory of the process, before it tried a batch.
        batch_milliseconds: that within a batch of 32; None where the network takes none, or too much for one.
        by_threads: milliseconds of an image by number of threads, 1 among them; empty where no more than 1 was tried.
        busy: a number of threads is missing there because they did not get their cores.
    """

    compile_milliseconds: float
    milliseconds: float
    peak_bytes: int
    batch_milliseconds: Optional[float] = None
    by_threads: Dict[str, float] = field(default_factory=dict)
    busy: bool = False

    @property
    def pays(self) -> bool:
        """Whether tables are scored in batches for that."""
        return pays(self.milliseconds, self.batch_milliseconds)

    @property
    def threads(self) -> int:
        """How many threads pay on this host; with as many, an image takes `by_threads[str(threads)]`."""
        return fitting(max(map(int, self.by_threads), default=1), self.by_threads)


class Sample(NamedTuple):
    """Images that a trial runs beside its own, for those who want to see what comes out.

    Attributes:
        images: a file of numpy's with uint8 (n, height, width, channels), as the network takes them.
        outputs: the file that gets the first output of each, float32, one behind the other; beside it, as .json, one
            with the milliseconds of each.
        seconds: after which no further image is begun.
    """

    images: str
    outputs: str
    seconds: float
