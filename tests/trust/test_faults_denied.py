"""A host that denies, as SELinux or a read-only root does: libraries nobody may load, folders nobody may write."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from asking import ask, refused, rows
from breakable import IMAGE, PREDICT, SEVEN, SLOW, Breakable, empty
from engine_processes import until
from small_disks import denied

from dbinfer.base.errors import InstallError
from dbinfer.install import InstallOptions, install
from dbinfer.install.doctor import doctor
from dbinfer.install.hosts import EngineOptions, engine
from dbinfer.models import DeployOptions, deploy

pytestmark = [
    pytest.mark.wide,
    pytest.mark.postgres_only("breaks a server that is its own"),
    pytest.mark.usefixtures("as_before"),
]


@pytest.fixture
def venv(broken: Breakable) -> Iterator[Path]:
    """The database's virtual environment: a copy, whose files nobody else uses."""
    copy = broken.server.home / "venv"
    shutil.copytree(str(broken.server.venv), copy, symlinks=True)
    yield copy
    install(InstallOptions(venv=str(broken.server.venv)), broken.dsn)
    shutil.rmtree(copy)


def problems(broken: Breakable) -> str:
    """Return what doctor finds wrong."""
    return "; ".join(
        f"{check.detail} {check.hint}" for check in doctor(dsn=broken.dsn).checks if not check.ok
    )


def test_libraries_that_may_not_be_run_are_named(broken: Breakable, venv: Path) -> None:
    with denied(venv, "noexec"):
        # as install finds out before it takes effect
        with pytest.raises(InstallError, match="failed to map segment") as caught:
            install(InstallOptions(venv=str(venv)), broken.dsn)
        assert "noexec" in caught.value.hint
    install(InstallOptions(venv=str(venv)), broken.dsn)
    with broken.session() as before:
        assert ask(before, PREDICT, IMAGE, "seven") == SEVEN
        empty(broken.cache)
        with denied(venv, "noexec"):
            # what a session has loaded stays
            assert ask(before, PREDICT, IMAGE, "seven") == SEVEN
            # a trial is a process of its own
            diag = refused(before, "55000", PREDICT, IMAGE, "slow")
            assert "failed to map segment" in str(diag.message_primary)
            assert diag.message_hint == "This host is at fault, not the model: dbinfer doctor looks at it."
            for isolation in ("never", "always"):
                rows(before, "SELECT dbinfer.set_isolation('seven', %s)", isolation)
                with broken.session() as db:
                    diag = refused(db, "58P01", PREDICT, IMAGE, "seven")
                said = str(diag.message_primary)
                assert said.startswith("dbinfer: the runtime's Python packages cannot be imported on host ")
                # one line, without numpy's page of advice
                assert "failed to map segment" in said
                assert "\n" not in said
                assert "noexec" in str(diag.message_hint)
            rows(before, "SELECT dbinfer.set_isolation('seven', 'never')")
            assert "failed to map segment" in problems(broken)
        assert ask(before, PREDICT, IMAGE, "slow") == SLOW


def test_a_cache_that_nobody_may_write_serves_what_it_has(broken: Breakable, tmp_path: Path) -> None:
    deploy(tiny_models.constant(tmp_path, 3, "three"), DeployOptions(isolation="never"), dsn=broken.dsn)
    with broken.session() as db:
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
        with denied(broken.cache, "ro"):
            with broken.session() as other:
                assert ask(other, PREDICT, IMAGE, "seven") == SEVEN
                diag = refused(other, "58030", PREDICT, IMAGE, "three")
            assert str(diag.message_primary).startswith(
                f"dbinfer: cannot write to the cache folder {broken.cache}"
            )
            assert str(diag.message_primary).endswith(": Read-only file system")
            assert str(diag.message_hint).startswith(
                "Let the server's user write there, or choose another folder"
            )
            assert f"{broken.cache}, " in problems(broken)
        assert ask(db, PREDICT, IMAGE, "three") == [3.0] * 3
        rows(db, "SELECT dbinfer.drop_model('three', force => true)")


def test_a_folder_in_which_no_engine_can_start_is_named(broken: Breakable) -> None:
    engine(EngineOptions(stop=True), broken.dsn)
    folder = broken.server.home / "engine"
    with broken.session() as db:
        until(
            lambda: ask(db, "SELECT count(*) FROM dbinfer.engines WHERE pid IS NOT NULL") == 0, "it has ended"
        )
        with denied(folder, "ro"):
            rows(db, "SELECT dbinfer.set_isolation('seven', 'always')")
            diag = refused(db, "58000", PREDICT, IMAGE, "seven")
            assert diag.message_primary == f"dbinfer: the engine's folder {folder} cannot be written"
            assert diag.message_hint == "Choose another folder: dbinfer install --engine-dir FOLDER"
            # nothing demands an engine of all models, so it is no fault
            instead = f"models run in the backends, because the engine's folder {folder} cannot be written"
            assert any(
                check.ok and check.detail.startswith(instead) for check in doctor(dsn=broken.dsn).checks
            )
            rows(db, "SELECT dbinfer.set_isolation('seven', 'auto')")
            assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
        rows(db, "SELECT dbinfer.set_isolation('seven', 'always')")
        assert ask(db, PREDICT, IMAGE, "seven") == SEVEN
        rows(db, "SELECT dbinfer.set_isolation('seven', 'never')")
