"""What a host does before it serves: shut itself in, then try, compile and warm the model, as a backend would."""

from __future__ import annotations

import gc
import os
import resource
from time import monotonic, perf_counter, sleep
from typing import Any, Dict, Tuple

from .. import figures, libraries
from ..cache import Entry
from ..errors import ModelError
from ..image_limits import image_limits
from ..memory import require_memory
from ..model import Model, manifest_of
from ..threads import taken
from ..trial import Limits
from ..tried import libraries_of, require_tried
from . import landlock

# Sessions that have just ended give back their memory meanwhile; all who wait for this model would hear of a refusal
ROOM_SECONDS = 2.0


def shut_in(folder: str, settings: Dict[str, str]) -> Dict[str, Any]:
    """Bound memory, and allow only the libraries and one entry of the model cache; return what the kernel granted."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    most = Limits.from_settings(settings).memory_bytes + image_limits(settings).max_memory
    resource.setrlimit(resource.RLIMIT_DATA, (most, most))
    try:
        # all of /proc: the process of a trial reads what is said of itself
        readable = [*libraries_of(folder, settings), "/proc"]
        found = landlock.restrict(readable, [folder, "/dev/null"])
    except OSError as err:
        return {"landlock": 0, "problem": "no Landlock: %s" % err.strerror}
    return {"landlock": found}


def _wait_for_room(folder: str, settings: Dict[str, str]) -> None:
    """Return where there is memory for the model, now or in a moment; ModelError where there is none."""
    until = monotonic() + ROOM_SECONDS
    while True:
        try:
            require_memory(folder, settings)
            return
        except ModelError:
            if monotonic() > until:
                raise
        sleep(ROOM_SECONDS / 20)


def tried(wanted: Dict[str, Any]) -> int:
    """Have the model tried where nobody has on this host; return how many of the wanted threads it takes.

    Raises:
        ModelError: as models.load_model.
    """
    spec, entry = wanted["spec"], _entry(wanted)
    settings, precision = spec["settings"], manifest_of(spec).precision
    version = libraries.load(settings.get("venv", ""))["openvino"].get_version()
    # the trial needs as much; Model looks again
    _wait_for_room(entry.folder, settings)
    by_threads = require_tried(entry, precision, settings, version, wanted["threads"])
    return taken(settings, wanted["threads"], by_threads)


def _entry(wanted: Dict[str, Any]) -> Entry:
    spec = wanted["spec"]
    return Entry(os.path.dirname(wanted["folder"]), spec["xml_digest"], spec["bin_digest"])


def load(wanted: Dict[str, Any]) -> Tuple[Model, Dict[str, Any]]:
    """Return the model, which was tried before and has run once, and its facts.

    Raises:
        ModelError: as models.load_model.
    """
    spec, entry = wanted["spec"], _entry(wanted)
    openvino = libraries.load(spec["settings"].get("venv", ""))["openvino"]
    started = perf_counter()
    model = Model(openvino, entry, spec, wanted["threads"])
    rows = model.batch_network(wanted["rows"]).rows
    milliseconds = (perf_counter() - started) * 1e3
    # with all signals blocked, as the first inference is: afterwards a timer can end one
    model.compiled.input.fill(0)
    model.compiled.infer()
    # what is there now is shared with the workers, as long as nobody writes to it
    gc.collect()
    gc.freeze()
    facts = {
        "rows": rows,
        "compile_milliseconds": round(milliseconds, 1),
        "infer_milliseconds": figures.milliseconds(entry.folder),
        "batch_milliseconds": figures.read(entry.folder)[0].get("batch_milliseconds"),
        "result_bytes": model.result_bytes,
    }
    return model, facts
