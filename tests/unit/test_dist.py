"""What a release consists of, as `make dist` makes it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from dbinfer.base.version import __version__
from dbinfer.database import pins

pytestmark = pytest.mark.wide
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with all of it; the script compares two builds of the wheel, and fails where they differ."""
    folder = tmp_path_factory.mktemp("dist") / "made"
    done = subprocess.run(
        ["bash", "scripts/dist", folder], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder


def test_wheel_source_list_and_digests(made: Path) -> None:
    name = f"dbinfer-{__version__}"
    assert sorted(path.name for path in made.iterdir()) == [
        "SHA256SUMS",
        f"{name}-py3-none-any.whl",
        f"{name}.cdx.json",
        f"{name}.tar.gz",
    ]
    for line in (made / "SHA256SUMS").read_text().splitlines():
        digest, file = line.split()
        assert hashlib.sha256((made / file).read_bytes()).hexdigest() == digest


def test_the_list_names_each_package_and_its_licence(made: Path) -> None:
    listed = json.loads((made / f"dbinfer-{__version__}.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    found = {pins.plain(one["name"]): one["version"] for one in listed["components"]}
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    wanted = {pins.plain(name): version for name, version in pins.versions(version).items()}
    assert found | wanted | {"dbinfer": __version__} == found
    assert {"sqlalchemy", "psycopg2-binary", "rich", "typer"} <= set(found)
    assert [one["name"] for one in listed["components"] if not one.get("licenses")] == []
