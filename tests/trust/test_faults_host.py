"""The disk fills, the cache or the venv goes, the server restarts: one clear error, and all is well afterwards."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import figures
import pytest
import small_disks
from asking import ask, refused, rows
from breakable import IMAGE, PREDICT, SEVEN, SLOW, WEIGHED, Breakable, empty, outcome
from costly_models import wide_model

from dbinfer import server as embedded
from dbinfer.install import InstallOptions, install
from dbinfer.install.hosts import EngineOptions, engine
from dbinfer.models import deploy

pytestmark = [
    pytest.mark.wide,
    pytest.mark.postgres_only("breaks a server that is its own"),
    pytest.mark.usefixtures("as_before"),
]

# pages that are left: a folder, a file, weights or a blob of 256 do not fit, just fit, or fit with room
FREE = (0, 2, 20, 258, 400, 516, 600)
if figures.long():
    FREE = (0, 1, 2, 3, 5, 20, 257, 258, 259, 260, 264, 300, 400, 514, 516, 520, 530, 600)


@pytest.fixture
def small_disk(broken: Breakable) -> Iterator[Path]:
    """The cache on a disk of 4 MB; the cache of before afterwards."""
    owner = Path(broken.server.data_dir).stat().st_uid
    # its own one each time: a disk that an earlier test left busy is no obstacle
    with small_disks.small_disk(4, owner, broken.server.home) as disk:
        install(InstallOptions(cache_dir=str(disk)), broken.dsn)
        try:
            yield disk
        finally:
            install(InstallOptions(cache_dir=str(broken.cache)), broken.dsn)
            # the engine maps the models' files, and what is mapped keeps the disk busy
            engine(EngineOptions(stop=True), broken.dsn)


def test_a_full_disk_is_named_and_nothing_half_written_stays(
    broken: Breakable, small_disk: Path, tmp_path: Path
) -> None:
    model = wide_model(tmp_path, 12, "toolarge")
    deploy(model, dsn=broken.dsn)
    with broken.session() as db:
        diag = refused(db, "53100", PREDICT, IMAGE, "toolarge")
        assert f"the cache folder {small_disk}" in str(diag.message_primary)
        assert "No space left on device" in str(diag.message_primary)
        assert "Make room there" in str(diag.message_hint)
        assert list(small_disk.rglob("*.tmp")) == []
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
        rows(db, "SELECT dbinfer.drop_model('toolarge', force => true)")


@pytest.mark.parametrize("free", FREE)
def test_a_disk_that_fills_at_any_page_gives_the_right_answer_or_one_clean_error(
    broken: Breakable, small_disk: Path, free: int
) -> None:
    """Whatever does not fit any more: folder, temporary file, weights of 1 MB, stamp, compiled blob of 1 MB."""
    filler = _fill(small_disk)
    os.truncate(filler, max(0, filler.stat().st_size - free * 4096))
    with broken.session() as db:
        found, diag = outcome(db, PREDICT, IMAGE, "weighty")
        if diag is None:
            assert found == [(WEIGHED,)]
        else:
            assert diag.sqlstate == "53100", diag.message_primary
            assert f"the cache folder {small_disk}" in str(diag.message_primary)
        assert list(small_disk.rglob("*.tmp")) == []
        filler.unlink()
        assert ask(db, PREDICT, IMAGE, "weighty") == WEIGHED
    with broken.session() as db:
        assert ask(db, PREDICT, IMAGE, "weighty") == WEIGHED, "a blob that was cut off"


def _fill(disk: Path) -> Path:
    filler = disk / "filler"
    handle = os.open(filler, os.O_CREAT | os.O_WRONLY)
    with contextlib.suppress(OSError):
        while os.write(handle, b"\0" * 4096):
            pass
    os.close(handle)
    return filler


def test_the_cache_may_be_removed_under_a_session(broken: Breakable) -> None:
    with broken.session() as db:
        rows(db, "SET dbinfer.nothing = 1")
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
        empty(broken.cache)
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
        assert ask(db, PREDICT, IMAGE, "slow") == SLOW
        with broken.session() as other:
            assert ask(other, PREDICT, IMAGE, "seven") == SEVEN
    shutil.rmtree(broken.cache)
    try:
        with broken.session() as db:
            found, diag = outcome(db, PREDICT, IMAGE, "seven")
            message = diag and diag.message_primary
            assert found == [(SEVEN,)] or f"the cache folder {broken.cache}" in message
    finally:
        broken.cache.mkdir(mode=0o700, exist_ok=True)
        shutil.chown(broken.cache, Path(broken.server.data_dir).owner())


def test_without_the_venv_the_error_names_it_and_with_it_all_works(broken: Breakable) -> None:
    venv = broken.server.home / "venv"
    shutil.copytree(str(broken.server.venv), venv, symlinks=True)
    install(InstallOptions(venv=str(venv)), broken.dsn)
    away = venv.with_name("venv.away")
    venv.rename(away)
    try:
        with broken.session() as db:
            diag = refused(db, "58P01", PREDICT, IMAGE, "seven")
            assert str(venv) in str(diag.message_primary)
            away.rename(venv)
            assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
    finally:
        install(InstallOptions(venv=str(broken.server.venv)), broken.dsn)
        shutil.rmtree(venv, ignore_errors=True)


def test_a_venv_that_goes_under_a_session_is_named_and_missed_until_it_is_back(broken: Breakable) -> None:
    venv = broken.server.home / "venv"
    shutil.copytree(str(broken.server.venv), venv, symlinks=True)
    install(InstallOptions(venv=str(venv)), broken.dsn)
    away = venv.with_name("venv.away")
    try:
        with broken.session() as db:
            assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
            venv.rename(away)
            diag = refused(db, "58P01", PREDICT, IMAGE, "slow")
            assert str(venv) in str(diag.message_hint)
            away.rename(venv)
            assert ask(db, PREDICT, IMAGE, "slow") == SLOW
            assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
    finally:
        install(InstallOptions(venv=str(broken.server.venv)), broken.dsn)
        shutil.rmtree(venv, ignore_errors=True)


def test_a_server_that_restarts_keeps_its_models(broken: Breakable) -> None:
    before = broken.registry()
    embedded.down(broken.server.home)
    assert not embedded.status(broken.server.home).running
    embedded.up(broken.server.home)
    assert broken.registry() == before
