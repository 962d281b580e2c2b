"""Admission's second half: the parts of a model, fed from the registry, become files in the host cache."""

from __future__ import annotations

from time import monotonic

from . import cache, fastjson, use

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict


class Admission:
    """Brings models into the host cache, one at a time: `need`, `feed` for each part, `finish`.

    Attributes:
        settings: of the caller that was last asked about.
    """

    def __init__(self) -> None:
        self._entries: Dict[str, cache.Entry] = {}
        self._writer: Any = None
        self.settings: Dict[str, str] = {}
        self._marked: Dict[str, float] = {}

    def need(self, xml_digest: str, bin_digest: str, settings: str) -> bool:
        """Return whether the host cache lacks the model's files; then parts may be fed."""
        self._abandon()
        self.settings = fastjson.loads(settings)
        entry = self._entry(xml_digest, bin_digest, self.settings)
        if entry.good():
            return False
        # only here, as in `finish`: most sessions find the files
        from .fetched import Writer

        self._writer = Writer(entry)
        return True

    def _abandon(self) -> None:
        """Remove what a statement that was cancelled has fed."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.abandon()

    def find(self, spec: Dict[str, Any]) -> None:
        """Make the model of a ticket's spec known to `entry`.

        Raises:
            ModelError: its files are not in the host cache, or damaged.
        """
        self.settings = spec["settings"]
        self._entry(spec["xml_digest"], spec["bin_digest"], self.settings)
        self.present(spec)

    def present(self, spec: Dict[str, Any]) -> cache.Entry:
        """Return the cache folder of a model that is known here, marked as used.

        Raises:
            ModelError: its files are not in the host cache, or damaged.
        """
        entry = self.entry(spec["xml_digest"], spec["bin_digest"])
        use.mark_used(entry.folder)
        if not entry.good():
            raise cache.gone('model "%s"' % spec["model"])
        return entry

    def _entry(self, xml_digest: str, bin_digest: str, settings: Dict[str, str]) -> cache.Entry:
        folder = settings.get("cache_dir") or cache.default_folder()
        entry = cache.Entry(cache.open_cache(folder), xml_digest, bin_digest)
        self._entries[xml_digest + bin_digest] = entry
        # before anybody looks whether the files are there: they must not go after that
        self._mark_used(entry)
        return entry

    def _mark_used(self, entry: cache.Entry) -> None:
        now = monotonic()
        if now - self._marked.get(entry.folder, -use.MARK_SECONDS) >= use.MARK_SECONDS:
            self._marked[entry.folder] = now
            use.mark_used(entry.folder)

    def feed(self, kind: str, data: bytes) -> None:
        """Take one part (kind `xml` or `bin`)."""
        self._writer.write(kind, data)

    def finish(self) -> None:
        """Put the files that were fed into the cache, and keep the cache within its limit."""
        # forgotten first: where finish() fails, its files are gone
        writer, self._writer = self._writer, None
        writer.finish()
        # the folder is new, or another one than when this session marked it
        use.mark_used(writer.entry.folder)
        from . import housekeeping

        housekeeping.make_room(writer.entry, self.settings)

    def entry(self, xml_digest: str, bin_digest: str) -> cache.Entry:
        """Return the cache folder of a model that `need` was asked about."""
        return self._entries[xml_digest + bin_digest]
