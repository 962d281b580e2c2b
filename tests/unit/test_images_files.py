"""Which files a load finds, under which path, and what the first bytes tell."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from dbinfer.base.errors import DataError, UsageError
from dbinfer.images import files
from dbinfer.images.files import BATCH, BATCH_BYTES, THREADS, Found, Outcome, Refused, find, read, read_ahead

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + bytes(30)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    for name in ("cat/2.png", "cat/1.png", "dog/x/3.png", ".hidden/4.png", "cat/.5.png"):
        file = tmp_path / "photos" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(PNG)
    return tmp_path / "photos"


def paths(*sources: Path, base: Path | None = None, recursive: bool = True) -> list[str]:
    refused: list[Refused] = []
    found = find(sources, base, refused, recursive)
    assert refused == []
    return [item.path for item in found]


def test_paths_begin_with_the_folder_and_hidden_files_are_left_out(photos: Path) -> None:
    assert paths(photos) == ["photos/cat/1.png", "photos/cat/2.png", "photos/dog/x/3.png"]


def test_base_shortens_the_paths(photos: Path) -> None:
    assert paths(photos / "cat", base=photos) == ["cat/1.png", "cat/2.png"]


def test_not_recursive(photos: Path) -> None:
    assert paths(photos, recursive=False) == []
    assert paths(photos / "cat", recursive=False) == ["cat/1.png", "cat/2.png"]


@pytest.mark.parametrize("name", [".", "../cat", "../cat/../cat"])
def test_dots_are_resolved(photos: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos / "cat")
    assert paths(Path(name)) == ["cat/1.png", "cat/2.png"]


def test_outside_the_base(photos: Path) -> None:
    with pytest.raises(UsageError, match="outside"):
        paths(photos / "cat", base=photos / "dog")


def test_a_source_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no file or folder"):
        paths(tmp_path / "nothing")


def refused(file: Path) -> str:
    outcome = read(Found(file, file.name))
    assert isinstance(outcome, Refused)
    return outcome.reason


def test_refused_with_a_reason(tmp_path: Path) -> None:
    (tmp_path / "empty.png").touch()
    (tmp_path / "text.png").write_text("hello")
    (tmp_path / "gone.png").symlink_to(tmp_path / "nothing")
    os.mkfifo(tmp_path / "pipe.png")
    assert "empty" in refused(tmp_path / "empty.png")
    assert "not an image" in refused(tmp_path / "text.png")
    assert "No such file" in refused(tmp_path / "gone.png")
    assert "not a regular file" in refused(tmp_path / "pipe.png")
    assert "is a folder: name its files" in refused(tmp_path)


@pytest.mark.skipif(os.geteuid() != 0, reason="makes files of other users: needs root")
@pytest.mark.parametrize(
    ("link", "file", "loaded"), [(1, 1, True), (0, 1, True), (1, 0, False), (1, 2, False)]
)
def test_links_lead_only_where_their_makers_may_read(
    tmp_path: Path, link: int, file: int, loaded: bool
) -> None:
    """Whoever may write into a folder put a picture of somebody else into the table, for all who read that."""
    (tmp_path / "private.png").write_bytes(PNG)
    (tmp_path / "link.png").symlink_to(tmp_path / "private.png")
    os.chown(tmp_path / "private.png", file, file)
    os.lchown(tmp_path / "link.png", link, link)
    if loaded:
        assert not isinstance(read(Found(tmp_path / "link.png", "link.png")), Refused)
    else:
        assert refused(tmp_path / "link.png") == "is another user's link to a file that is not his"


def test_a_file_that_became_a_link_and_none_again(tmp_path: Path) -> None:
    (tmp_path / "one.png").write_bytes(PNG)
    name, file = os.stat(tmp_path / "one.png"), os.stat("/dev/null")
    other = os.stat_result((*name[:4], name.st_uid + 1, *name[5:]))
    assert files._planted(other, file) == "was replaced while it was read"
    assert files._planted(name, name) == ""


def test_a_bmp_that_cannot_be_scored_is_not_loaded(tmp_path: Path) -> None:
    """Its header of 16 bytes is OS/2's short form: `load` took it, and scoring said "not an image"."""
    file = tmp_path / "short.bmp"
    file.write_bytes(b"BM" + bytes(12) + (16).to_bytes(4, "little") + bytes(40))
    assert "is not an image (JPEG, PNG, BMP, TIFF, WebP, GIF, AVIF or HEIC)" in refused(file)


def test_a_file_that_is_no_image_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "disk.img").open("wb") as handle:
        handle.truncate(1 << 40)
    assert "not an image" in refused(tmp_path / "disk.img")


def test_an_image_that_is_too_large_is_not_read_whole(tmp_path: Path) -> None:
    with (tmp_path / "large.png").open("wb") as handle:
        handle.write(PNG)
        handle.truncate(1 << 40)
    assert "less than 1 GiB" in refused(tmp_path / "large.png")


def test_a_name_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / os.fsdecode(b"\xff.png")
    file.write_bytes(PNG)
    assert "UTF-8" in refused(file)


def test_read_ahead_keeps_the_order_and_all_bytes(tmp_path: Path) -> None:
    files = [tmp_path / f"{number}.png" for number in range(2 * BATCH * THREADS + 1)]
    for number, file in enumerate(files):
        file.write_bytes(PNG + bytes([number]) * number)
    outcomes = list(read_ahead(Found(file, file.name) for file in files))
    assert [outcome[1] for outcome in outcomes if not isinstance(outcome, Refused)] == [
        file.read_bytes() for file in files
    ]


@pytest.mark.parametrize("size", [BATCH_BYTES // 3, 2 * BATCH_BYTES])
def test_large_files_keep_the_order_and_few_are_held(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    (tmp_path / "a.png").write_bytes(PNG + bytes(size))
    calls = 0

    def counted(found: Found) -> Outcome:
        nonlocal calls
        calls += 1
        return read(found)

    monkeypatch.setattr(files, "read", counted)
    asked = [Found(tmp_path / "a.png", str(number)) for number in range(3 * BATCH * THREADS)]
    held = -(-BATCH_BYTES // size) * (THREADS + 1)
    for done, outcome in enumerate(read_ahead(asked), 1):
        assert not isinstance(outcome, Refused)
        assert outcome[0] is asked[done - 1]
        assert calls - done < held
    assert calls == done == len(asked)


def test_read_ahead_takes_files_when_it_needs_them(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(PNG)
    asked = 0

    def files() -> Iterator[Found]:
        nonlocal asked
        while True:
            asked += 1
            yield Found(tmp_path / "a.png", "a.png")

    reading = read_ahead(files())
    next(reading)
    assert asked <= BATCH * (THREADS + 1)
    reading.close()


def test_the_folder_of_a_file(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos / "cat")
    found = find([Path("."), Path("1.png"), photos / "dog"], None, [])
    assert [item.folder for item in found] == ["cat", "cat", "cat", "x"]


def test_a_file_found_twice_is_one(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(photos / "cat")
    found = list(find([Path("."), Path("1.png"), Path("./2.png")], photos, []))
    assert len(found) == 4
    assert len(set(found)) == 2
