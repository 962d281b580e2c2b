"""Refuses a model that the host has no memory for: else the kernel ends a backend, and with it every session."""

from __future__ import annotations

import os
from typing import Dict

from .errors import ModelError
from .limits import free_bytes

DEFAULT_FREE_MB = 64
# Measured (docs/performance.md): networks of 0.4, 102 and 244 MB take 32, 149 and 279 MB, libraries included
LIBRARIES_BYTES = 48 << 20
FILES_FACTOR = 1.4


def require_memory(folder: str, settings: Dict[str, str], root: str = "/") -> None:
    """Return where there is room for the model whose files lie in `folder`.

    The answer holds for this moment: processes that load at once can still take more than there is.

    Raises:
        ModelError: afterwards fewer than `min_free_mb` (setting, default 64) would be free.
    """
    free = free_bytes(root)
    size = sum(os.path.getsize(os.path.join(folder, "model." + kind)) for kind in ("xml", "bin"))
    needed = LIBRARIES_BYTES + int(size * FILES_FACTOR)
    kept = int(settings.get("min_free_mb", DEFAULT_FREE_MB)) << 20
    if free is not None and free - needed < kept:
        raise ModelError(
            "the model needs about %d MB of memory, but only %d MB are free" % (needed >> 20, free >> 20),
            detail="At least %d MB must stay free, so that the kernel ends no process (min_free_mb)."
            % (kept >> 20),
            hint="Use fewer sessions or parallel workers, or give the server more memory.",
            sqlstate="53200",
        )
