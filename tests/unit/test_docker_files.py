"""What the containers' builds rest on, without a container: the entrypoint's program, and complete lists of pins."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from dbinfer.database import pins

ENTRYPOINT = Path(__file__).parents[2] / "docker" / "database" / "entrypoint"


def test_its_program_prints_the_settings_of_the_server() -> None:
    (program,) = re.findall(r"<<'PY'\n(.*?)\nPY\n", ENTRYPOINT.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in ("port = 5432", "listen_addresses = '*'", "max_parallel_workers_per_gather = "):
        assert line in done.stdout


if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def needed(extra: str) -> set[str]:
    """Return the packages that an extra names, with those of the extras that it names; "" for none."""
    words = PROJECT["optional-dependencies"][extra] if extra else PROJECT["dependencies"]
    found = set()
    for word in words:
        inner = re.match(r"dbinfer\[(.+)\]", word)
        if inner:
            found |= {name for one in inner[1].split(",") for name in needed(one)}
        elif "python_version <" not in word:
            found.add(plain(word))
    return found


def plain(word: str) -> str:
    """Return a requirement's name as package indexes compare it."""
    return pins.plain(re.split(r"[<>=~;\[ ]", word)[0])


def pinned(*files: str) -> set[str]:
    lines = [line for file in files for line in (ROOT / file).read_text(encoding="utf-8").splitlines()]
    return {plain(line) for line in lines if line and not line.startswith("#")}


def test_every_package_is_pinned(subtests: pytest.Subtests) -> None:
    for extra, files in [
        ("split", ["docker/training/requirements.txt"]),
        ("tune", ["docker/training/requirements.txt"]),
        ("", ["docker/training/requirements.txt"]),
        ("", ["docker/database/client.txt", "udf/dbinfer_udf/requirements.txt"]),
    ]:
        with subtests.test(extra=extra, files=files):
            assert needed(extra) - pinned(*files) == set()


def test_python_3_10_has_pins_of_its_own() -> None:
    """Ubuntu 22.04 has it; packages that have left it behind stopped the image's build there."""
    lines = (ROOT / "docker/database/client.txt").read_text(encoding="utf-8").splitlines()
    marked = [plain(line) for line in lines if "python_version" in line]
    older = [plain(line) for line in lines if line.endswith('; python_version < "3.11"')]
    assert {"annotated-doc", "platformdirs", "sqlalchemy"} <= set(older)
    # each of them twice, once for each side, but what only the older Python needs
    assert sorted(marked) == sorted([*older, *(name for name in older if name != "tomli")])
