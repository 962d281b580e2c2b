"""load from zip and tar archives and from lists of files; damaged and hostile ones cost one sentence."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, rows
from psycopg2.extensions import connection as Connection

from dbinfer.base.errors import DataError
from dbinfer.base.progress import Progress
from dbinfer.images import load as images_load
from dbinfer.images import sources
from dbinfer.images.load import LoadOptions, load

PNG = tiny_models.file(tiny_models.picture(7, 0, 0))
MEMBERS = {
    "photos/cat/1.png": PNG,
    "./photos/dog/2.png": PNG + b"2",
    "photos/notes.txt": b"no image",
    "photos/.hidden.png": PNG,
    "__MACOSX/photos/1.png": PNG,
    "3.png": PNG + b"3",
}
PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "tar": bytes,
    "tar.gz": gzip.compress,
    "tbz": bz2.compress,
    "tar.xz": lzma.compress,
}


@pytest.fixture(scope="module")
def dsn(empty_dsn: str) -> str:
    """Loading needs no dbinfer in the database."""
    return empty_dsn


@pytest.fixture(autouse=True)
def clean(db: Connection) -> Iterator[None]:
    yield
    rows(db, "DROP TABLE IF EXISTS images")


def _tar(members: dict[str, bytes], mtime: int = 1_600_000_000) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for name, data in members.items():
            info = tarfile.TarInfo(name)
            info.size, info.mtime = len(data), mtime
            archive.addfile(info, io.BytesIO(data))
        link = tarfile.TarInfo("photos/link.png")
        link.type, link.linkname = tarfile.SYMTYPE, "/etc/passwd"
        archive.addfile(link)
    return out.getvalue()


def _zip(members: dict[str, bytes], how: int = zipfile.ZIP_DEFLATED) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", how) as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name, (2020, 9, 13, 12, 26, 40)), data, how)
    return out.getvalue()


def _archive(folder: Path, kind: str, members: dict[str, bytes] = MEMBERS) -> Path:
    file = folder / f"images.{kind}"
    file.write_bytes(_zip(members) if kind == "zip" else PACKERS[kind](_tar(members)))
    return file


@pytest.mark.parametrize("batch", [1, 20_000])
@pytest.mark.parametrize("kind", ["zip", *PACKERS])
def test_archives_load_as_their_folders_would(
    db: Connection, dsn: str, tmp_path: Path, kind: str, batch: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(images_load, "BATCH", batch)
    file, told = _archive(tmp_path, kind), list[Progress]()
    options = LoadOptions(label_from="folder", update=True)
    report = load(file, options, dsn, told.append)
    assert (report.loaded, report.bytes) == (3, 3 * len(PNG) + 2)
    assert [item.reason[:15] for item in report.refused] == ["is not an image"]
    found = rows(
        db, "SELECT path, label, img, extract(epoch FROM file_modified)::bigint FROM images ORDER BY path"
    )
    assert found == [
        ("3.png", "images", PNG + b"3", 1_600_000_000),
        ("photos/cat/1.png", "cat", PNG, 1_600_000_000),
        ("photos/dog/2.png", "dog", PNG + b"2", 1_600_000_000),
    ]  # fmt: skip
    assert 0 < told[-1].done <= (told[-1].total or 0)
    assert load(file, options, dsn).skipped == 3
    other = _archive(tmp_path, kind, {**MEMBERS, "photos/cat/1.png": PNG + b"other", "photos/new.png": PNG})
    again = load(other, options, dsn)
    assert (again.loaded, again.skipped, again.updated) == (1, 2, 1)
    assert ask(db, "SELECT img FROM images WHERE path = 'photos/cat/1.png'") == PNG + b"other"


@pytest.mark.parametrize("kind", ["zip", *PACKERS])
@pytest.mark.parametrize("share", [0.3, 0.6, 0.97])
def test_archives_that_are_cut_off(db: Connection, dsn: str, tmp_path: Path, kind: str, share: float) -> None:
    noise = {f"photos/{n}.png": PNG + bytes((n * i * i) % 251 for i in range(9000)) for n in range(1, 5)}
    file = _archive(tmp_path, kind, noise)
    whole = file.read_bytes()
    end = len(whole) if kind != "tar" else whole.rindex(b"\0ustar") - 257
    file.write_bytes(whole[: int(end * share)])
    with pytest.raises(DataError, match=r"images.* is damaged or cut off: "):
        load(file, dsn=dsn)
    assert ask(db, "SELECT to_regclass('images')") is None


def test_a_tar_with_a_spoilt_header_in_its_midst(dsn: str, tmp_path: Path) -> None:
    file = _archive(tmp_path, "tar")
    data = bytearray(file.read_bytes())
    place = data.index(b"3.png")
    data[place : place + 200] = b"x" * 200
    file.write_bytes(data)
    with pytest.raises(DataError, match="is damaged or cut off"):
        load(file, dsn=dsn)


@pytest.mark.parametrize("kind", ["zip", "tar.gz"])
def test_bombs(db: Connection, dsn: str, tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "LEAST", 1 << 20)
    file = _archive(tmp_path, kind, {"big.png": PNG + bytes(8 << 20)})
    with pytest.raises(DataError, match=r"images.* of \d+ bytes becomes more than \d+") as error:
        load(file, dsn=dsn)
    assert "unpack it and load the folder" in error.value.hint
    assert ask(db, "SELECT to_regclass('images')") is None


def test_a_member_that_no_value_can_hold_is_not_read(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "images.zip"
    file.write_bytes(_zip({"1.png": PNG}))
    data = bytearray(file.read_bytes())
    place = data.index(b"PK\1\2") + 24
    data[place : place + 4] = (0xF0000000).to_bytes(4, "little")
    file.write_bytes(data)
    report = load(file, dsn=dsn)
    assert [item.reason for item in report.refused] == [
        "has 4026531840 bytes; a value in a table holds less than 1 GiB"
    ]


def test_an_encrypted_zip(dsn: str, tmp_path: Path) -> None:
    data = bytearray(_zip({"1.png": PNG}, zipfile.ZIP_STORED))
    data[6] |= 1
    data[data.index(b"PK\1\2") + 8] |= 1
    file = tmp_path / "images.zip"
    file.write_bytes(data)
    assert [item.reason for item in load(file, dsn=dsn).refused] == [
        "is encrypted; unpack the archive and load the folder"
    ]


def test_a_spoilt_member_of_a_zip_is_refused_alone(dsn: str, tmp_path: Path) -> None:
    data = bytearray(_zip({"1.png": PNG + b"precious", "2.png": PNG}, zipfile.ZIP_STORED))
    data[data.index(b"precious")] ^= 255
    file = tmp_path / "images.zip"
    file.write_bytes(data)
    report = load(file, dsn=dsn)
    assert report.loaded == 1
    assert report.refused[0].file == f"{file}: 1.png"
    assert "is damaged: Bad CRC-32" in report.refused[0].reason


@pytest.mark.parametrize("kind", ["zip", "tar"])
def test_names_that_lead_out_of_the_archive(db: Connection, dsn: str, tmp_path: Path, kind: str) -> None:
    names = {"../../etc/1.png": PNG, "/root/2.png": PNG, "a/../../3.png": PNG, "it's \\ 100%.png": PNG}
    report = load(_archive(tmp_path, kind, names), dsn=dsn)
    assert [item.reason for item in report.refused] == ["its name leads out of the archive"] * 2
    assert rows(db, "SELECT path FROM images ORDER BY path") == [("it's / 100%.png",), ("root/2.png",)]


def test_a_name_that_is_not_utf8_and_one_that_comes_twice(dsn: str, tmp_path: Path) -> None:
    file = tmp_path / "images.tar"
    with tarfile.open(file, "w", encoding="latin-1", format=tarfile.GNU_FORMAT) as archive:
        for name in ("1.png", "1.png", "\xff.png"):
            info = tarfile.TarInfo(name)
            info.size = len(PNG)
            archive.addfile(info, io.BytesIO(PNG))
    report = load(file, dsn=dsn)
    assert report.loaded == 1
    assert sorted(item.reason[:17] for item in report.refused) == ["has the same path", "its name is not v"]


@pytest.mark.parametrize("separator", ["\n", "\r\n", "\0"])
def test_a_list_of_files(db: Connection, dsn: str, tmp_path: Path, separator: str) -> None:
    for name in ("a b.png", "c.png"):
        (tmp_path / name).write_bytes(PNG)
    names = [str(tmp_path / name) for name in ("a b.png", "c.png", "missing.png", "c.png")]
    listed = tmp_path / "list"
    listed.write_text(separator.join(names) + (separator if separator != "\r\n" else ""), newline="")
    report = load((), LoadOptions(from_list=listed, base=tmp_path), dsn)
    assert (report.loaded, [item.reason for item in report.refused]) == (
        2, ["cannot be read: No such file or directory"],
    )  # fmt: skip
    assert rows(db, "SELECT path FROM images ORDER BY path") == [("a b.png",), ("c.png",)]


def test_a_list_on_standard_input(db: Connection, dsn: str, tmp_path: Path) -> None:
    (tmp_path / "1.png").write_bytes(PNG)
    words = ("load", "--from-list", "-", "--dsn", dsn)
    program = "from dbinfer.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, *words],
        input=f"{tmp_path}/1.png\n",
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert ask(db, "SELECT path FROM images") == f"{tmp_path}/1.png"


def test_nothing_to_load_and_lists_that_are_none(dsn: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="there is nothing to load") as error:
        load((), dsn=dsn)
    assert "--from-list" in error.value.hint
    with pytest.raises(DataError, match=r"the list '.*nowhere' cannot be read: No such file"):
        load((), LoadOptions(from_list=tmp_path / "nowhere"), dsn)
    (tmp_path / "empty").touch()
    with pytest.raises(DataError, match="there are no files in"):
        load((), LoadOptions(from_list=tmp_path / "empty"), dsn)
