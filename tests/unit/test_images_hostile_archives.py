"""Archives that were made to hold, to fill or to confuse whoever loads them: each ends in a result or one sentence."""

from __future__ import annotations

import gzip
import io
import signal
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbinfer.base.errors import DataError
from dbinfer.images import sources
from dbinfer.images.files import Refused
from dbinfer.images.sources import Tar

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(20)
END = bytes(1024)


@pytest.fixture(autouse=True)
def no_hang() -> Iterator[None]:
    """Fail where an archive would be read for ever."""

    def fail(*_: object) -> None:
        raise AssertionError("it hangs")

    before = signal.signal(signal.SIGALRM, fail)
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def header(name: str, size: int, kind: bytes = tarfile.REGTYPE, form: int = tarfile.GNU_FORMAT) -> bytes:
    info = tarfile.TarInfo(name)
    info.size, info.type, info.mtime = size, kind, 1
    return info.tobuf(form)


def member(name: str, data: bytes, kind: bytes = tarfile.REGTYPE) -> bytes:
    return header(name, len(data), kind) + data + bytes(-len(data) % 512)


def read(tmp_path: Path, data: bytes) -> tuple[list[str], list[str]]:
    """Return the paths of what would be loaded, and the reasons of what would not."""
    file = tmp_path / "images.tar"
    file.write_bytes(data)
    tar, refused = Tar(file), list[Refused]()
    found = list(tar.entries(refused))
    outcomes = list(tar.reader()(found))
    reasons = [item.reason for item in (*refused, *outcomes) if isinstance(item, Refused)]
    return [item[0].path for item in outcomes if not isinstance(item, Refused)], reasons


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("size", [1 << 60, 1 << 40, 5000])
def test_a_member_that_ends_beyond_the_archive(size: int, packed: bool, tmp_path: Path) -> None:
    """What is missing was skipped block by block, for years where a header says 2^60 bytes."""
    data = header("1.png", size) + PNG
    with pytest.raises(DataError, match="is damaged or cut off"):
        read(tmp_path, gzip.compress(data) if packed else data)


@pytest.mark.parametrize("kind", [b"x", b"g", b"L", b"K", b"X"])
def test_a_header_as_long_as_a_disk(kind: bytes, tmp_path: Path) -> None:
    """Names and attributes were read into memory, however many bytes of zeros they are."""
    data = gzip.compress(header("long", 2 << 20, kind) + bytes(2 << 20) + member("1.png", PNG) + END)
    with pytest.raises(DataError, match="a header of 2097152 bytes"):
        read(tmp_path, data)


@pytest.mark.parametrize("kind", [b"x", b"L"])
def test_headers_of_headers(kind: bytes, tmp_path: Path) -> None:
    """Each makes tarfile call itself once more: a RecursionError, and a traceback."""
    one = member("h", b"11 path=ab\n" if kind == b"x" else b"name\0", kind)
    with pytest.raises(DataError, match="is damaged or cut off"):
        read(tmp_path, one * 3000 + member("1.png", PNG) + END)


def test_a_sparse_member_counts_with_what_it_becomes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its zeros are not in the archive, and did not count: a kilobyte gave a gigabyte, as often as one likes."""
    monkeypatch.setattr(sources, "LEAST", 1 << 20)
    text = b"1\n0\n%d\n" % len(PNG)
    content = text + bytes(512 - len(text)) + PNG
    fields = {
        "GNU.sparse.major": "1",
        "GNU.sparse.minor": "0",
        "GNU.sparse.name": "1.png",
        "GNU.sparse.realsize": str(8 << 20),
    }
    info = tarfile.TarInfo("1.png")
    info.size, info.pax_headers = len(content), fields
    data = info.tobuf(tarfile.PAX_FORMAT) + content + bytes(-len(content) % 512)
    with pytest.raises(DataError, match="becomes more than"):
        read(tmp_path, data + END)


def test_what_is_no_file_is_left_out(tmp_path: Path) -> None:
    """Links lead anywhere, and devices and pipes would be opened."""
    kinds = (
        tarfile.SYMTYPE,
        tarfile.LNKTYPE,
        tarfile.CHRTYPE,
        tarfile.BLKTYPE,
        tarfile.FIFOTYPE,
        tarfile.DIRTYPE,
    )
    odd = b""
    for number, kind in enumerate(kinds):
        info = tarfile.TarInfo(f"{number}.png")
        info.type, info.linkname = kind, "/etc/passwd"
        odd += info.tobuf()
    assert read(tmp_path, odd + member("good.png", PNG) + END) == (["good.png"], [])


def test_names_that_lead_out(tmp_path: Path) -> None:
    data = b"".join(member(name, PNG) for name in ("../1.png", "a/../../2.png", "/etc/3.png", ".4.png"))
    loaded, reasons = read(tmp_path, data + END)
    assert loaded == ["etc/3.png"]
    assert reasons == ["its name leads out of the archive"] * 2


def test_a_bomb_of_zeros_between_members(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LEAST", 1 << 20)
    file = io.BytesIO()
    file.write(member("text", bytes(8 << 20)) + member("1.png", PNG) + END)
    with pytest.raises(DataError, match="becomes more than"):
        read(tmp_path, gzip.compress(file.getvalue()))


@pytest.mark.parametrize("size", [-1, -512, -(1 << 40)])
def test_a_size_below_zero(size: int, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="is damaged or cut off"):
        read(tmp_path, header("1.png", size) + PNG + bytes(-len(PNG) % 512) + END)
