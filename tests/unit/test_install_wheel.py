"""A wheel built from the clone and installed elsewhere works without the clone: sql, udf and models travel inside."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

pytest.importorskip("hatchling", reason="building a wheel needs hatchling: pip install hatchling")
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    (found,) = folder.glob("*.whl")
    return found


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The bin folder of a venv that has the wheel, and the other packages of this environment but not the clone."""
    folder = tmp_path_factory.mktemp("elsewhere") / "venv"
    venv.create(folder, with_pip=False, symlinks=True)
    (packages,) = folder.glob("lib/python*/site-packages")
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--no-deps",
        "--no-index",
        "-q",
        "--target",
        packages,
        wheel,
    ]
    subprocess.run(command, check=True, capture_output=True)
    linked = folder / "linked"
    linked.mkdir()
    for entry in Path(sysconfig.get_paths()["purelib"]).iterdir():
        if not entry.name.startswith(("dbinfer", "_dbinfer", "__editable__")) and entry.suffix != ".pth":
            (linked / entry.name).symlink_to(entry)
    (packages / "linked.pth").write_text(f"{linked}\n")
    return folder / "bin"


def python(elsewhere: Path, *args: str) -> str:
    env = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "PG", "DBINFER"))}
    command = [elsewhere / "python", *args]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd="/", env=env)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_what_is_inside(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    sql = {
        f"dbinfer/_sql/{path.relative_to(ROOT / 'sql')}"
        for path in (ROOT / "sql").rglob("*")
        if path.is_file()
    }
    udf = {str(path.relative_to(ROOT / "udf")) for path in (ROOT / "udf" / "dbinfer_udf").rglob("*.py")}
    zoo = {f"dbinfer_models/{path.name}" for path in (ROOT / "models" / "dbinfer_models").glob("*.py")}
    assert sql | udf | zoo | {"dbinfer_udf/requirements.txt"} <= names
    assert not [
        name for name in names if name.startswith(("tests", "docs", "docker")) or "__pycache__" in name
    ]


def test_the_command_runs_without_the_clone(elsewhere: Path) -> None:
    assert "deploy" in python(
        elsewhere, "-c", "import sys; sys.argv = ['dbinfer', '--help']; import dbinfer.cli as c; c.main()"
    )
    shown = python(elsewhere, "-c", "import dbinfer, dbinfer_udf, dbinfer_models; print(dbinfer.__file__)")
    assert str(ROOT) not in shown


def test_sql_and_runtime_come_from_the_wheel(elsewhere: Path) -> None:
    code = (
        "from dbinfer.database import sql; from dbinfer.install.content import Content; c = Content(); "
        "print(sql.root()); print(len(c.upgrades), len(c.rerun), len(c.modules), c.runtime_digest, c.sql_digest)"
    )
    root, facts = python(elsewhere, "-c", code).splitlines()
    from dbinfer.install.content import Content

    here = Content()
    assert root.endswith("dbinfer/_sql")
    assert facts == (
        f"{len(here.upgrades)} {len(here.rerun)} {len(here.modules)} {here.runtime_digest} {here.sql_digest}"
    )
