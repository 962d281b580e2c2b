"""What the SQL functions do with one image, by name: each returns the text or the bytes that leave the backend."""

from __future__ import annotations

import json
import os
import socket
from time import perf_counter
from typing import Any, Callable, Dict, Optional

from ..host import process
from ..result.vectors import float_array_literal
from ..tasks import FUNCTIONS, PREDICT, TASKS, Function, imported, wants_tiles
from .model import Model
from .waiting import score_rest, take_row

Run = Callable[[Any, bytes, Any], Any]


def _scoring(function: Function) -> Run:
    """Return what scores one image with a function of the table of tasks."""
    finish, task, names_output = imported(function.finish), function.task, function.argument == "output"
    whole = function.argument == "outputs"

    def run(model: Model, img: bytes, k: Any) -> Any:
        # asked here first, without two calls: every row comes here
        if task is not None and model.manifest.task != task:
            model.require(task, function.sql)
        # before the image is decoded: a wrong name costs nothing
        number = model.number(k) if names_output and k is not None else 0
        placement, header = model.score(img)
        if whole:
            return finish(model, model.compiled.results(), placement, header, k)
        # asked for afterwards: of a network for any size it is another array each time
        output = model.compiled.result(number) if number else model.output
        return finish(model, output, placement, header, k)

    return _in_tiles(function, run) if function.tiled else run


def _in_tiles(function: Function, whole: Run) -> Run:
    """Return what scores one image tile by tile where that is wanted, and else as a whole."""

    def run(model: Model, img: bytes, k: Any) -> Any:
        if not wants_tiles(function, k, model.tile):
            return whole(model, img, k)
        model.require(function.task or "", function.sql)
        return model.by_tiles(function.name, img)

    return run


def tile(model: Model, img: bytes, _k: Any) -> bytes:
    """Return what the network finds in one tile of an image."""
    return model.found_in_tile(img)


def profile(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the microseconds of each step as JSON, with the result that users of its task ask for."""
    function = next(iter(TASKS[model.manifest.task].functions), PREDICT)
    finish = imported(function.finish)
    return json.dumps(
        model.profile(img, lambda placement, header: finish(model, model.output, placement, header, None))
    )


def outputs(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return every output as JSON: name (null where there is but one), and array literals of shape and values."""
    model.score(img)
    found = model.compiled.results()
    return json.dumps(
        [
            {
                "name": name,
                "shape": "{%s}" % ",".join(map(str, one.shape)),
                "values": float_array_literal(one),
            }
            for name, one in zip(model.manifest.outputs or [None] * len(found), found)
        ]
    )


def warm(model: Model, img: bytes, k: Optional[int]) -> str:
    """Run the network once on a blank image; return segment, pid and milliseconds, with loading where needed."""
    started = perf_counter()
    model.compiled.input.fill(0)
    # with an inference: the first one is slower, and part of what a first row waits for
    model.compiled.infer()
    milliseconds = (perf_counter() - started) * 1e3 + model.take_load_time()
    row = {"content": process.content_id(), "pid": os.getpid()}
    return json.dumps(dict(row, milliseconds=round(milliseconds, 1)))


def warm_with_host(model: Model, img: bytes, k: Optional[int]) -> str:
    """Return the same with the host, for administrators."""
    return json.dumps(dict(json.loads(warm(model, img, k)), host=socket.gethostname()))


RUNS: Dict[str, Run] = {
    **{name: _scoring(function) for name, function in FUNCTIONS.items()},
    "profile": profile,
    "warm": warm,
    "outputs": outputs,
    "tile": tile,
    "batch": take_row,
    "rest": score_rest,
}
