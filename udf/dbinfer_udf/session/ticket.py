"""The right to score rows with one model version in one transaction; errors leave through here."""

from __future__ import annotations

import sys
from time import perf_counter

from .. import fastjson
from ..errors import EngineError, ImageError, UdfError, UsageError, sees_hosts
from ..host import interrupts, process
from ..tasks import FUNCTIONS, PREDICT, TASKS

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, NoReturn, Optional, Tuple

ON_ERROR = ("error", "null")
HINT = "With on_error => 'null' such an image gives NULL."
# What tickets do besides the functions of the table of tasks
BESIDES = PROBLEM, FILL = "problem", "fill"
IMAGE = "image"  # the only function without a model that may answer NULL
# Of an image with a result that a ticket remembers although nobody has asked for its problem
KEPT_BYTES = 1 << 24
UNKNOWN = object()
BUG = "XX000"  # SQLSTATE internal_error


def raise_in_database(plpy: Any, err: UdfError, named: bool = True) -> NoReturn:
    """Raise an error in the database, with DETAIL, HINT and SQLSTATE; with hosts and folders only if `named`."""
    if err.sqlstate == interrupts.CANCELLED:
        raise _cancelled(plpy, err.message, process.place_of_process(named))
    told, place = err if named else err.for_everybody(), process.place_of_process(named)
    detail = "%s (%s)" % (told.detail, place) if told.detail else "On " + place
    raise database_error(plpy, told.message, detail, told.hint, told.sqlstate)


def _cancelled(plpy: Any, message: str, detail: str) -> Exception:
    """Return the server's own sentence on why the statement ends, as far as PL/Python lets us: `sentence: message`.

    An error in any case: the server acts on a cancel when it next looks, and may not look again before it commits.
    """
    sentence, sqlstate = interrupts.why_cancelled()
    error = database_error(plpy, message, detail, "", sqlstate)
    type(error).__name__ = sentence
    return error


def database_error(plpy: Any, message: str, detail: str, hint: str, sqlstate: str) -> Exception:
    """Return an exception that PL/Python reports as `dbinfer: message` (plpy.error would say `plpy.Error: message`)."""
    if process.is_9_4():
        # how PL/Python there keeps what an SPIError reports
        code = sum((ord(letter) - 48 & 63) << 6 * place for place, letter in enumerate(sqlstate))
        told = {"__module__": "builtins", "spidata": (code, detail or None, hint or None, None, 0)}
        return type("dbinfer", (plpy.SPIError,), told)(message)  # type: ignore[no-any-return]
    kind = type("dbinfer", (plpy.Error,), {"__module__": "builtins"})
    error: Exception = kind(message)
    for name, value in (("detail", detail), ("hint", hint or None), ("sqlstate", sqlstate)):
        setattr(error, name, value)
    return error


class Ticket:
    """Scores rows for a caller that was admitted to a model version, and the same image again without the model.

    A field of a composite costs a call: `(classify(img)).label, (classify(img)).score` calls twice.

    Args:
        session: the backend's session.
        version_id: of the model version; 0 for functions that need no model.
        spec: JSON: model, version, xml_digest, bin_digest, manifest, settings (or the settings alone for 0).
        asked: when the model was asked for (perf_counter).

    Attributes:
        remembered: how many calls were answered without the model.
        failed: SQLSTATE of the error of the last row that ended with one.
    """

    __slots__ = (
        "_asked",
        "_function",
        "_kept_bytes",
        "_key",
        "_known",
        "_last",
        "_reason",
        "_session",
        "_tasks",
        "_wanted",
        "failed",
        "remembered",
        "spec",
        "transaction",
        "version_id",
    )

    def __init__(self, session: Any, version_id: int, spec: str, asked: float) -> None:
        self.version_id = version_id
        self.spec = spec
        self._session = session
        self._asked: Optional[float] = asked
        self.transaction = session.transaction()
        self._key = ""
        self._tasks: Any = None
        # the last image (equal bytes come again as another object), what was wrong with it (message, public), and
        # its results by (task, k)
        self._last: Optional[bytes] = None
        self._reason: Optional[Tuple[str, str]] = None
        self._known: Dict[Tuple[str, Any], Any] = {}
        self._kept_bytes = KEPT_BYTES
        # a row's problem may be asked for before its result: what problem() scores with
        self._wanted: Optional[Tuple[str, Any]] = None
        self._function: Optional[Tuple[str, Any]] = None
        self.remembered = 0
        self.failed = ""

    def run(
        self,
        plpy: Any,
        task: str,
        img: Optional[bytes],
        on_error: Optional[str],
        k: Any,
        row: Optional[int] = None,
    ) -> Any:
        """Score one image; None for None, and for a bad image where on_error is 'null'.

        Args:
            k: what the task needs beside the image: a number of classes, or the row of a batch.
            row: the image's key, which errors then name.
        """
        # before all else, so that a NULL costs neither a library nor a model
        if img is None:
            return None
        session = self._session
        if session.settles:
            # before the images are compared: that takes long enough for a cancel to come
            session.settle()
        besides = task in BESIDES or img == self._last
        known = self._beside(plpy, task, img, on_error, k) if besides else UNKNOWN
        if known is not UNKNOWN:
            return known
        try:
            if session.orphan.value:
                session.look()
            if on_error not in ON_ERROR:
                raise _wrong_on_error(on_error)
            if session.transaction() != self.transaction:
                raise UsageError(
                    "this model token belongs to another transaction", hint="Run the statement again."
                )
            # the ticket holds a key, not the model, so that max_models bounds what stays in memory
            model = session.models.get(self._key)
            result = (
                self._first(task, img, k)
                if model is None
                else (self._tasks.get(task) or _known_run(self._tasks, task))(model, img, k)
            )
            self._remember(task, img, k, result)
            return result
        except KeyboardInterrupt:
            # a cancel on Greenplum; further interrupts that it has queued must not reach the next statement
            interrupts.drain_interrupts()
            self.failed = interrupts.CANCELLED
            raise
        except EngineError as err:
            if not session.lose_engine(self._key):
                self.failed = err.sqlstate
                raise_in_database(plpy, err, self._named())
            # the model is loaded here, where nothing raises this error again
            return self.run(plpy, task, img, on_error, k, row)
        except ImageError as err:
            self._last, self._reason, self._known = img or None, (err.message, err.public), {(task, k): None}
            self.failed = err.sqlstate
            self._refuse(plpy, err if row is None else err.of_row(row), task, on_error)
        except UdfError as err:
            self.failed = err.sqlstate
            raise_in_database(plpy, err, self._named())
        except Exception as err:
            self.failed = BUG
            # not a bare except, which would swallow the KeyboardInterrupt of a cancel
            raise self._unexpected(plpy, err) from err

    def _refuse(self, plpy: Any, err: UdfError, task: str, on_error: Optional[str]) -> None:
        """Raise what is wrong with an image, unless NULL is wanted."""
        if on_error == "null":
            return
        # image_info, draw and profile cannot answer NULL for a bad image
        nullable = task == IMAGE or (self.version_id and task != "profile")
        raise_in_database(plpy, err.with_hint(HINT) if nullable else err, self._named())

    def each(self, plpy: Any, task: str, data: Optional[bytes], k: Any) -> Any:
        """Return an iterator over the rows of a task that makes them one by one; errors as those of `run`.

        The first row is made at once: of an error that comes later, PL/Python shows the message as DETAIL only.
        """
        rows = self._guarded(plpy, self.run(plpy, task, data, "error", k) or ())
        for first in rows:
            return _with_first(first, rows)
        return iter(())

    def _guarded(self, plpy: Any, rows: Any) -> Any:
        try:
            yield from rows
        except KeyboardInterrupt:
            interrupts.drain_interrupts()
            raise
        except UdfError as err:
            raise_in_database(plpy, err, self._named())
        except Exception as err:
            raise self._unexpected(plpy, err) from err

    def _unexpected(self, plpy: Any, err: Exception) -> Exception:
        return database_error(
            plpy,
            "unexpected %s: %s" % (type(err).__name__, err),
            self._trace(),
            "This is a bug in dbinfer or in the model. Check the installation: dbinfer doctor",
            BUG,
        )

    def _beside(self, plpy: Any, task: str, img: bytes, on_error: Optional[str], k: Any) -> Any:
        """Do what is no function of the model, or return what the last image had; UNKNOWN if it is to be scored."""
        if task == PROBLEM:
            return self._problem(plpy, img)
        if task == FILL:
            return self._filling(plpy, img, on_error, k)
        return self._again(task, on_error, k)

    def _remember(self, task: str, img: bytes, k: Any, result: Any) -> None:
        # a batch comes without an image
        if task in FUNCTIONS and 0 < len(img) <= self._kept_bytes - len(result):
            if img != self._last:
                self._last, self._reason, self._known = img, None, {}
            self._known[task, k] = result

    def _again(self, task: str, on_error: Optional[str], k: Any) -> Any:
        """Return the last image's result, or UNKNOWN."""
        # an error is found anew, with all its parts
        if on_error not in ON_ERROR or (self._reason and on_error != "null"):
            return UNKNOWN
        if self._session.transaction() != self.transaction:
            return UNKNOWN
        known = self._known.get((task, k), UNKNOWN)
        if known is not UNKNOWN:
            self.remembered += 1
        elif task in FUNCTIONS:
            # from now on problem() scores with what the statement asks for
            self._wanted = (task, k)
        return known

    def _problem(self, plpy: Any, img: bytes) -> Optional[str]:
        """Return what is wrong with an image, or None; it is scored unless it was the last one that was."""
        self._kept_bytes = sys.maxsize
        if self._last == img:
            self.remembered += 1
        else:
            task, k = self._wanted or self._first_function()
            self.run(plpy, task, img, "null", k)
        if self._reason is None:
            return None
        message, public = self._reason
        return public if public and not self._named() else message

    def _filling(self, plpy: Any, img: bytes, on_error: Optional[str], whole: int) -> Optional[str]:
        """Return the model's result as text for a column's input function; of a class the label unless `whole`."""
        task, k = self._first_function()
        result = self.run(plpy, task, img, on_error, k)
        if isinstance(result, bytes):
            return "\\x" + result.hex()
        return _label_of(result) if task == "classify" and result is not None and not whole else result

    def _first_function(self) -> Tuple[str, Any]:
        """Return the function that users call with this model, with its argument."""
        if self._function is None:
            manifest = fastjson.loads(self.spec).get("manifest")
            functions = TASKS[manifest["task"]].functions if manifest else ()
            self._function = (functions[0].name, 0) if functions else (PREDICT.name, None)
        return self._function

    def _named(self) -> bool:
        spec = fastjson.loads(self.spec)
        return sees_hosts(spec.get("settings", spec))

    def _trace(self) -> str:
        if not self._named():  # its lines name folders
            return "On " + process.place_of_process(False)
        import traceback

        return "%s\n%s" % (process.place_of_process(True), traceback.format_exc())

    def _first(self, task: str, img: bytes, k: Any) -> Any:
        """Load the model and score the first row.

        Called again if other models of the statement have driven this one out: max_models counts, not the ticket.
        """
        spec = fastjson.loads(self.spec)
        # imports only here, because what resolves a model needs none of them
        if self.version_id == 0:
            from .images import IMAGE_TASKS

            # image_info reads a header, which needs limits and no model
            return _known_run(IMAGE_TASKS, task)(spec, img, k)
        from ..engine.models import load_model

        self._tasks, self._key, model = load_model(self._session, spec, task)
        if self._asked is not None:
            model.waited_for(perf_counter() - self._asked)
            # the wait counts for the first load only
            self._asked = None
        return _known_run(self._tasks, task)(model, img, k)


def _with_first(first: Any, rows: Any) -> Any:
    # itertools.chain, whose import each session would pay for
    yield first
    yield from rows


def _label_of(classification: str) -> Optional[str]:
    """Return the label of a literal of dbinfer.classification: (number,label,score); None where it has none."""
    label = classification[classification.index(",") + 1 : classification.rindex(",")]
    return label[1:-1].replace('\\"', '"').replace("\\\\", "\\") or None


def _known_run(tasks: Dict[str, Any], name: str) -> Any:
    if name not in tasks:
        raise UsageError(
            'model "" does not exist'
            if "image_info" in tasks
            else "there is no function %s() of a model" % name,
            hint="Write name, name@3 or name@alias; NULL means the default model.",
        )
    return tasks[name]


def _wrong_on_error(value: Optional[str]) -> UsageError:
    return UsageError(
        "on_error is %r, but must be 'error' or 'null'" % value,
        hint="Use 'error' to stop at a damaged image, or 'null' to get NULL for it.",
    )
