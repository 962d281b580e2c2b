"""A wheel and a source of `make dist`, installed on other distributions by docs/how-to/install.md alone."""

from __future__ import annotations

import re
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from containers import ROOT, docker, need, run
from outside import write_colours

from dbinfer.base.version import __version__

PAGE = ROOT / "docs" / "how-to" / "install.md"
BASES = ("ubuntu:jammy", "debian:bookworm-slim", "ubuntu:noble", "debian:trixie-slim")
WHEEL, SOURCE = f"dbinfer-{__version__}-py3-none-any.whl", f"dbinfer-{__version__}.tar.gz"
PLACE = "/srv/empty"


@pytest.fixture(scope="module")
def carried(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a user has the release, a model and photos."""
    folder = tmp_path_factory.mktemp("carried")
    subprocess.run(["bash", "scripts/dist", folder], cwd=ROOT, check=True, capture_output=True)
    tiny_models.colour_classifier(folder)
    write_colours(folder / "photos", 2)
    return folder


@pytest.fixture(params=BASES)
def machine(request: pytest.FixtureRequest, compose: None, carried: Path) -> Iterator[str]:
    need(request.param, "")
    name = f"dbinfer-package-{uuid.uuid4().hex[:8]}"
    docker("run", "-d", "--init", "--name", name, "-w", PLACE, request.param, "sleep", "infinity")
    try:
        docker("cp", f"{carried}/.", f"{name}:{PLACE}")
        yield name
    finally:
        run(["docker", "rm", "-f", name])


def commands(section: str) -> str:
    """Return the commands of a section of the page."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return "\n".join(re.findall(r"^\$ (.*)$", text, re.MULTILINE))


def shell(machine: str, script: str, timeout: float = 1800) -> str:
    """Run commands as root in the folder; stop at the first one that fails."""
    start = "set -eu; export DEBIAN_FRONTEND=noninteractive PATH=/opt/dbinfer/client/bin:$PATH\n"
    return docker("exec", machine, "bash", "-c", start + script, timeout=timeout)


def test_the_page_alone_is_enough(machine: str, subtests: pytest.Subtests) -> None:
    said = shell(machine, commands("A machine of its own"))
    for colour in ("red", "green", "blue"):
        assert len(re.findall(rf"^ {colour}\s+\| {colour}$", said, re.MULTILINE)) == 2
    with subtests.test("a server that is there"):
        started = "pg_ctlcluster $(ls /usr/lib/postgresql) main start\n"
        said = shell(machine, started + commands("A server that is there"))
        assert "made, tried as postgres" in said
        assert "is installed" in said or "installed dbinfer" in said
    with subtests.test("without a network"):
        python = shell(machine, "python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
        said = shell(machine, commands("Hosts without a network").replace("3.11", python))
        assert "/opt/dbinfer/venv-offline: Python" in said
        shell(machine, "dbinfer host-venv /opt/dbinfer/venv-plain")
    with subtests.test("from the source"):
        shell(
            machine,
            f"python3 -m venv /opt/source; /opt/source/bin/pip install -q {SOURCE}; /opt/source/bin/dbinfer --version; "
            "diff -r -x __pycache__ -x RECORD -x direct_url.json "
            "/opt/source/lib/python3*/site-packages/dbinfer /opt/dbinfer/client/lib/python3*/site-packages/dbinfer",
        )


def test_the_page_names_this_version() -> None:
    assert set(re.findall(r"dbinfer-(\d[\d.]*\d)[-.]", PAGE.read_text(encoding="utf-8"))) == {__version__}
