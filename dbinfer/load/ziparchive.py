"""Images within a zip archive, read in place."""

from __future__ import annotations

import calendar
import os
import zipfile
from collections.abc import Callable, Generator, Iterable, Iterator
from pathlib import Path

from dbinfer.imagefiles import Found, Outcome, Refused
from dbinfer.load.archives import DAMAGED, Budget, damaged, found_member, outcome_of


class Zip:
    """A zip archive; its table of contents is held in memory, its images are not."""

    def __init__(self, file: Path) -> None:
        self._file, self._budget = file, Budget(file)
        try:
            self._zip = zipfile.ZipFile(file)
        except DAMAGED as err:
            raise damaged(file, err) from err
        self.total = os.path.getsize(file)

    def entries(self, refused: list[Refused]) -> Iterator[Found]:
        """Yield the images-to-be."""
        for place, info in enumerate(self._zip.infolist()):
            if info.filename.endswith("/"):  # is_dir fails of an empty name
                continue
            found = found_member(self._file, info.filename, refused)
            if found is not None:
                size, weight = info.file_size, info.compress_size
                yield found._replace(size=size, modified=_microseconds(info), weight=weight, place=place)

    def reader(self) -> Callable[[Iterable[Found]], Generator[Outcome, None, None]]:
        """Return what reads some of the entries."""
        return lambda wanted: (self._read(item) for item in wanted)

    def close(self) -> None:
        """Close the archive."""
        self._zip.close()

    def _read(self, item: Found) -> Outcome:
        info = self._zip.infolist()[item.place]
        if info.flag_bits & 1:
            return Refused(str(item.file), "is encrypted; unpack the archive and load the folder")
        try:
            with self._zip.open(info) as handle:
                return outcome_of(item, handle, self._budget)
        except NotImplementedError:
            return Refused(str(item.file), "is compressed in a way that cannot be read here")
        except DAMAGED as err:
            return Refused(str(item.file), f"is damaged: {err}")


def _microseconds(info: zipfile.ZipInfo) -> int | None:
    """Return a member's time, taken for UTC: a zip does not say of which place it is."""
    try:
        return calendar.timegm((*info.date_time, 0, 0, 0)) * 1_000_000
    except (ValueError, OverflowError):
        return None
