"""Finding PostgreSQL, and saying what to install when something is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from dbinfer.base.errors import ServerError
from dbinfer.server import cluster

SCRIPT = """#!/bin/sh
case "$1" in
  --version) echo "postgres ({product}) {version}" ;;
  --sharedir) echo "{folder}/share" ;;
  --pkglibdir) echo "{folder}/lib" ;;
  --bindir) echo "{folder}/bin" ;;
esac
"""


def install(root: Path, version: str, *, product: str = "PostgreSQL", plpython: bool = True) -> Path:
    """Lay down programs that answer as a server of this version does."""
    folder = root / "usr/lib/postgresql" / version.split(".", maxsplit=1)[0]
    for part in ("bin", "lib", "share/extension"):
        (folder / part).mkdir(parents=True)
    for name in ("postgres", "initdb", "pg_config"):
        program = folder / "bin" / name
        program.write_text(SCRIPT.format(product=product, version=version, folder=folder))
        program.chmod(0o755)
    if plpython:
        (folder / "share/extension/plpython3u.control").touch()
        (folder / "lib/plpython3.so").touch()
    return folder / "bin"


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A file system of its own, with nothing on PATH."""
    monkeypatch.delenv("DBINFER_PG_BIN", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    found = cluster.candidates
    monkeypatch.setattr(cluster, "candidates", lambda: found(tmp_path))
    return tmp_path


def test_the_newest_with_plpython_is_taken(root: Path) -> None:
    install(root, "15.20")
    install(root, "16.2")
    install(root, "17.1", plpython=False)
    assert cluster.find().version == "16.2"


def test_versions_are_compared_as_numbers(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older, newer = install(root / "a", "15.9"), install(root / "b", "15.10")
    monkeypatch.setattr(cluster, "candidates", lambda: [older, newer])
    assert cluster.find().version == "15.10"


def test_the_data_folder_decides_the_major_version(root: Path) -> None:
    install(root, "15.20")
    install(root, "16.2")
    assert cluster.find(15).version == "15.20"
    with pytest.raises(ServerError, match="created by PostgreSQL 14, which is not installed") as caught:
        cluster.find(14)
    assert "postgresql-plpython3-14" in caught.value.hint


@pytest.mark.parametrize("version", ["13.14", "19.0"])
def test_versions_outside_14_to_18_are_left_alone(root: Path, version: str) -> None:
    install(root, version)
    with pytest.raises(ServerError, match="no PostgreSQL 14 to 18"):
        cluster.find()


@pytest.mark.parametrize(("version", "taken"), [("13.23", True), ("12.22", False)])
def test_a_named_postgresql_13_is_taken(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: str, taken: bool
) -> None:
    monkeypatch.setenv("DBINFER_PG_BIN", str(install(tmp_path, version)))
    if taken:
        assert cluster.find().version == version
        assert cluster.find(13).version == version
    else:
        with pytest.raises(ServerError, match="no PostgreSQL 14 to 18"):
            cluster.find()


def test_greenplum_is_no_embedded_server(root: Path) -> None:
    install(root, "14.4", product="Greenplum Database")
    with pytest.raises(ServerError, match="no PostgreSQL 14 to 18"):
        cluster.find()


def test_nothing_installed_gives_the_command(root: Path) -> None:
    with pytest.raises(ServerError) as caught:
        cluster.find()
    assert "apt-get install postgresql postgresql-plpython3-" in caught.value.hint


def test_missing_plpython_names_the_package_of_the_version_found(root: Path) -> None:
    install(root, "16.2", plpython=False)
    with pytest.raises(ServerError, match=r"PostgreSQL 16\.2 .* has no PL/Python") as caught:
        cluster.find()
    assert "apt-get install postgresql-plpython3-16" in caught.value.hint


def test_the_variable_names_the_only_candidate(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(root, "17.1")
    elsewhere = install(root / "own", "15.3")
    monkeypatch.setenv("DBINFER_PG_BIN", str(elsewhere))
    assert cluster.find().bindir == elsewhere


def test_pg_config_on_the_path_is_asked(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{install(root / 'own', '18.0')}:/usr/bin:/bin")
    assert cluster.find().version == "18.0"


def test_a_library_that_is_linked_with_no_python_is_refused(tmp_path: Path) -> None:
    library = tmp_path / "plpython3.so"
    library.touch()
    with pytest.raises(ServerError, match="not linked with a Python library"):
        cluster.linked_python(library)
