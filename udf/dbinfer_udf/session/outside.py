"""The session of a worker, outside of any database: its models, and rows scored as a backend scores them."""

from __future__ import annotations

from .. import fastjson
from ..engine.models import HostEngine, load_model
from ..errors import EngineError, ImageError
from ..image.file import image_limits
from ..store.reader import Reader
from ..tasks import FUNCTIONS
from .resolve import Admission

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Callable, Dict, List, Optional, Sequence, Tuple

    Spec = Dict[str, Any]
    # the result, and what is wrong with the image ("": nothing)
    Found = Tuple[Any, str]


class Fetched:
    """Images that lie in stores, fetched ahead of what is scored, for one thread.

    Args:
        settings: with the stores that the role may read, see dbinfer._readable_stores.
        references: of images; None for None.

    Raises:
        StoreError: the role may read no such store.
    """

    def __init__(self, reader: Reader, settings: Dict[str, str], references: Sequence[Optional[str]]) -> None:
        self._reader, self._settings = reader, settings
        self._most = image_limits(settings).max_bytes
        self._pending = [self._ask(reference) for reference in references]

    def _ask(self, reference: Optional[str]) -> Any:
        if reference is None:
            return None
        try:
            return self._reader.ask(self._settings, reference, None, self._most)
        except ImageError as err:
            return err

    def take(self, place: int) -> Tuple[Optional[bytes], str]:
        """Return an image, and what is wrong with it ("": nothing); it may be taken once more until `drop`.

        Raises:
            StoreError: its store cannot be read.
        """
        found = self._pending[place]
        try:
            if isinstance(found, ImageError):
                raise found
            return (None if found is None else found.result()), ""
        except ImageError as err:
            return None, err.public or err.message

    def drop(self, place: int) -> None:
        """Forget an image."""
        self._pending[place] = None


class Outside:
    """What a backend's Session is to tickets, for rows that come without a ticket.

    Args:
        digest: of the runtime's sources.
        modules: returns them, for an engine that is started.
    """

    def __init__(self, digest: str, modules: Callable[[], Dict[str, str]]) -> None:
        self.models: Dict[str, Any] = {}
        self.engine = HostEngine(digest, modules)
        self._admission = Admission()

    def need(self, spec: Spec) -> bool:
        """Return whether the host cache lacks the model's files; then parts may be fed."""
        return self._admission.need(spec["xml_digest"], spec["bin_digest"], fastjson.dumps(spec["settings"]))

    def feed(self, kind: str, data: bytes) -> None:
        """Take one part of the model that `need` asked for."""
        self._admission.feed(kind, data)

    def finish(self) -> None:
        """Put the files that were fed into the cache."""
        self._admission.finish()

    def present(self, spec: Spec) -> Any:
        """Return the cache folder of a model that `need` was asked about; ModelError if it is gone since."""
        return self._admission.present(spec)

    def rows_at_once(self, spec: Spec, function: str, img: Optional[bytes]) -> int:
        """Return how many rows are scored together; 1 where batches do not pay on this host."""
        rows: int = self._held(spec, lambda tasks, model: _rows_at_once(model, function, img))
        return rows

    def score(
        self, spec: Spec, function: str, images: Sequence[Optional[bytes]], k: Any = None
    ) -> List[Found]:
        """Return the result of each image file, None for None, and what is wrong with it.

        As in a backend: whole batches together, what is left one by one, and a bad image alone once more for its error.
        """
        found: List[Found] = self._held(spec, lambda tasks, model: _scored(tasks, model, function, images, k))
        return found

    def _held(self, spec: Spec, step: Callable[[Any, Any], Any]) -> Any:
        """Return what a step does with the model; where the engine is lost on the way, with the model loaded here."""
        tasks, key, model = load_model(self, spec, "batch")
        try:
            return step(tasks, model)
        except EngineError:
            if model.in_process or not self.engine.lose(model.spec, model.model.passing):
                raise
            del self.models[key]
            return self._held(spec, step)


def _rows_at_once(model: Any, function: str, img: Optional[bytes]) -> int:
    rows: int = model.batch_rows(img) if FUNCTIONS[function].batch else 1
    return rows


def _scored(tasks: Any, model: Any, function: str, images: Sequence[Optional[bytes]], k: Any) -> List[Found]:
    known = FUNCTIONS[function]
    if known.task is not None:
        model.require(known.task, known.sql)
    run, found = tasks[function], []  # type: Any, List[Found]
    size = _rows_at_once(model, function, next((img for img in images if img is not None), None))
    whole = len(images) // size * size if size > 1 else 0
    for first in range(0, whole, size):
        part = list(enumerate(images[first : first + size]))
        for result, (_, img) in zip(model.rows(function, True, part), part):
            found.append(_alone(run, model, img, k) if result is None else (result, ""))
    return found + [_alone(run, model, img, k) for img in images[whole:]]


def _alone(run: Any, model: Any, img: Optional[bytes], k: Any) -> Found:
    if img is None:
        return None, ""
    try:
        return run(model, img, k), ""
    except ImageError as err:
        return None, err.public or err.message
