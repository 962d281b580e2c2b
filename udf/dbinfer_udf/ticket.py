"""The right to score rows with one model version in one transaction; errors leave through here."""

from __future__ import annotations

import json
import traceback
from typing import Any, Optional

from . import place
from .errors import ImageError, UdfError, UsageError

ON_ERROR = ("error", "null")


def report(plpy: Any, err: UdfError) -> None:
    """Raise a user's error in the database, with DETAIL, HINT and SQLSTATE."""
    detail = "%s (%s)" % (err.detail, place.describe()) if err.detail else "On " + place.describe()
    plpy.error(err.message, detail=detail, hint=err.hint or None, sqlstate=err.sqlstate)


class Ticket:
    """Scores rows for a caller that was admitted to a model version.

    Args:
        session: the backend's session.
        version_id: of the model version; 0 for functions that need no model.
        facts: JSON: model, version, xml_digest, bin_digest, manifest, settings (or the settings alone for 0).
    """

    __slots__ = ("_model", "_session", "_tasks", "_transaction", "facts", "version_id")

    def __init__(self, session: Any, version_id: int, facts: str) -> None:
        self.version_id = version_id
        self.facts = facts
        self._session = session
        self._transaction = session.transaction_now()
        self._model: Any = None
        self._tasks: Any = None

    def run(self, plpy: Any, task: str, img: Optional[bytes], on_error: Optional[str], k: Optional[int]) -> Any:
        """Score one image; None for None, and for a bad image where on_error is 'null'."""
        if img is None:
            return None
        try:
            if self._tasks is None:
                return self._first(task, img, on_error, k)
            if self._session.transaction_now() != self._transaction:
                raise UsageError("this model token belongs to another transaction", hint="Run the statement again.")
            return self._tasks[task](self._model, img, k)
        except ImageError as err:
            if on_error == "null":
                return None
            report(plpy, err)
        except UdfError as err:
            report(plpy, err)
        except Exception as err:
            plpy.error(
                "dbinfer failed: %s: %s" % (type(err).__name__, err),
                detail="%s\n%s" % (place.describe(), traceback.format_exc()),
                hint="This is a defect of dbinfer or of the model; dbinfer doctor checks the installation.",
                sqlstate="XX000",
            )

    def _first(self, task: str, img: bytes, on_error: Optional[str], k: Optional[int]) -> Any:
        """Load the model and score the first row with all signals blocked: threads start here."""
        if on_error not in ON_ERROR:
            raise UsageError(
                "on_error is %r, but must be 'error' or 'null'" % on_error,
                hint="'error' stops the query at a bad image, 'null' gives NULL for it.",
            )
        from .engine import load_model, load_tasks

        facts = json.loads(self.facts)
        tasks = load_tasks(facts if self.version_id == 0 else facts["settings"])
        with place.signals_blocked():
            model = load_model(self._session, facts) if self.version_id else facts
            result = tasks[task](model, img, k)
        self._model, self._tasks = model, tasks
        return result
