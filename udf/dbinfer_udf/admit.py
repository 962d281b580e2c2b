"""Admission's second half: the parts of a model, fed from the registry, become files in the host cache."""

from __future__ import annotations

import json
from typing import Dict, Optional

from . import cache


class Admission:
    """Brings models into the host cache, one at a time: `need`, `feed` for each part, `finish`."""

    def __init__(self) -> None:
        self._entries: Dict[str, cache.Entry] = {}
        self._writer: Optional[cache.Writer] = None

    def need(self, xml_digest: str, bin_digest: str, settings: str) -> bool:
        """Return whether the host cache lacks the model's files; then parts may be fed."""
        self._abandon()
        folder = json.loads(settings).get("cache_dir") or cache.default_folder()
        entry = cache.Entry(cache.open_cache(folder), xml_digest, bin_digest)
        self._entries[xml_digest + bin_digest] = entry
        if entry.good():
            return False
        self._writer = cache.Writer(entry)
        return True

    def _abandon(self) -> None:
        """Remove what a statement that was cancelled has fed."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    def feed(self, kind: str, data: bytes) -> None:
        """Take one part (kind `xml` or `bin`)."""
        self._writer.write(kind, data)  # type: ignore[union-attr]

    def finish(self) -> None:
        """Put the files that were fed into the cache."""
        writer, self._writer = self._writer, None
        writer.finish()  # type: ignore[union-attr]

    def entry(self, xml_digest: str, bin_digest: str) -> cache.Entry:
        """Return the cache folder of a model that `need` was asked about."""
        return self._entries[xml_digest + bin_digest]
