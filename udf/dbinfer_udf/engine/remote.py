"""A model in the engine, as a backend has it: one connection for each row, and what to do where no answer comes."""

from __future__ import annotations

import os

from .. import fastjson, process
from . import control, steps, wire
from .errors import CancelledError, EngineError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Tuple

FIRST_BYTES = 1 << 16
TRIES = 10  # a model may be dropped for others, or its engine end, between two rows


class LostError(Exception):
    """No answer came; args[0] says whether the request may have begun."""


class RemoteModel:
    """A model in the engine; see Engine.open.

    Attributes:
        facts: `rows` and `threads` of one inference, `result_bytes` of an image, `compile_milliseconds`; of the trial
            `infer_milliseconds` and `batch_milliseconds`.
        name, version: of the model.
        passing: it serves a session's first rows only; see isolation.HostEngine.
    """

    def __init__(self, engine: Any, wanted: Dict[str, Any]) -> None:
        self._engine = engine
        self._wanted = wanted
        self.name: str = wanted["spec"]["model"]
        self.version: int = wanted["spec"]["version"]
        self.passing = False
        self._wide: Optional[RemoteModel] = None
        self._load_milliseconds = 0.0
        self._reopen()

    def _reopen(self) -> None:
        found = self._engine.load(self._wanted)
        self._path: str = found["path"]
        self._key: str = found["key"]
        self.facts: Dict[str, Any] = found["facts"]
        # fewer than were wanted where more do not pay; who opens it again asks for these at once
        self._wanted = dict(self._wanted, threads=self.facts["threads"])

    def release(self) -> None:
        """Give the model back without having asked it anything."""
        self._engine.release(self._key)

    def ask(self, task: str, img: Optional[bytes], k: Any) -> Any:
        """Return what TASKS[task](model, img, k) returns in the engine, or raise what it raises.

        Raises:
            RowError: the worker died of this row, or took more time or memory than it may.
            EngineError: the engine has gone and cannot be started again.
            CancelledError: the statement was cancelled meanwhile.
        """
        answer = self._request(task, img, k)
        return self._warmed(answer) if task == "warm" else answer

    def waited_for(self, seconds: float) -> None:
        """Note how long the user waited for it: runtime, files, engine and compiling."""
        self._load_milliseconds = seconds * 1e3

    def _warmed(self, answer: str) -> str:
        """Return the answer of a worker with what is this backend's: its segment, pid, and what it waited for."""
        found = wire.warmth(answer)
        waited, self._load_milliseconds = self._load_milliseconds, 0.0
        found.update(content=process.content_id(), pid=os.getpid())
        return fastjson.dumps(dict(found, milliseconds=round(found["milliseconds"] + waited, 1)))

    def wide(self, rows: int) -> RemoteModel:
        """Return the model for so many rows at once; one is kept beside that for a single row."""
        if rows == self.facts["rows"]:
            return self
        if self._wide is None or self._wide._wanted["rows"] != rows:
            self._wide = RemoteModel(self._engine, dict(self._wanted, rows=rows))
        return self._wide

    def _request(self, task: str, img: Optional[bytes], k: Any) -> Any:
        number = os.urandom(8)
        parts = wire.request(number, task, img, k)
        lost = 0
        for _ in range(TRIES):
            try:
                kind, body = self._exchange(parts)
            except LostError as err:
                lost += self._after(number) if err.args[0] else 0
                # an engine that was killed knows nothing of the row: once is chance, twice may be the row
                if lost > 1:
                    break
                self._reopen()
                continue
            except CancelledError:
                self._engine.cancel(self._key, number.hex())
                raise
            return wire.result(kind, body)
        raise EngineError("the engine was lost while it scored this row", hint="Run the statement again.")

    def _after(self, number: bytes) -> int:
        """Return 1 where the engine of an unanswered request has gone, 0 where the request never began; else raise."""
        try:
            verdict = self._engine.verdict(self._key, number.hex())
        except control.GoneError:
            return 1
        if "error" in verdict:
            raise wire.rebuild(verdict["error"])
        return 0

    def _exchange(self, parts: List[bytes]) -> Tuple[int, bytes]:
        """Return kind and body of the answer; LostError where none comes."""
        sent = False
        connection = steps.open_socket()
        try:
            steps.connect(connection, self._path)
            sent = True
            steps.send(connection, parts)
            return _receive(connection)
        except (OSError, wire.ClosedError) as err:
            raise LostError(sent) from err
        finally:
            # also after an error: an answer that was not read belongs to no other row
            connection.close()


def _receive(connection: Any) -> Tuple[int, bytes]:
    block = steps.receive(connection, FIRST_BYTES)
    while len(block) < wire.ANSWER.size:
        block += steps.receive(connection, wire.ANSWER.size - len(block))
    magic, kind, size = wire.ANSWER.unpack_from(block)
    if magic != wire.MAGIC or size > wire.MOST_BYTES:
        raise wire.ClosedError
    body = block[wire.ANSWER.size :]
    if len(body) == size:
        return kind, body
    parts, have = [body], len(body)
    while have < size:
        parts.append(steps.receive(connection, min(size - have, 1 << 20)))
        have += len(parts[-1])
    return kind, b"".join(parts)
