"""A wheel, a source and a Debian package, installed on other distributions by docs/how-to/install.md alone."""

from __future__ import annotations

import re
import shlex
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


# A container has no systemd that would start services: this starts what their units say
SYSTEMCTL = r"""
systemctl() {
    local name file user
    said() { sed -n "s/^$1=//p" "/lib/systemd/system/$name.service"; }
    for name in "${@:3}"; do
        user=$(said User) file=$(said EnvironmentFile)
        for folder in $(said RuntimeDirectory | sed 's:^:/run/:') $(said CacheDirectory | sed 's:^:/var/cache/:'); do
            install -d -m 700 -o "$user" "$folder"
        done
        setpriv --reuid "$user" --regid "$user" --init-groups env $(cat "${file:-/dev/null}") \
            $(said ExecStart) >"/var/log/$name" 2>&1 </dev/null &
    done
}
"""
LOAD = "dbinfer load photos --table photos --label-from folder; dbinfer deploy colours.xml"
READ = "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://127.0.0.1:9187/metrics\").read().decode())'"


def su(user: str, script: str) -> str:
    return f"cd {PLACE}; setpriv --reuid {user} --regid {user} --init-groups bash -euc {shlex.quote(script)}"


def test_a_debian_package(machine: str, subtests: pytest.Subtests) -> None:
    """What the page says makes it and installs it; what its units start does its work; nothing of it stays."""
    server = commands("A machine of its own").split("\npython3 -m venv")[0]
    # which has systemd-analyze
    shell(machine, f"{server}\napt-get install -y --no-install-recommends systemd")
    shell(machine, "pg_ctlcluster $(ls /usr/lib/postgresql) main start; chmod -R a+rX .")
    shell(machine, SYSTEMCTL + commands("A Debian package").replace("amd64", "$(dpkg --print-architecture)"))
    with subtests.test("the environment is the one that this release names"):
        assert "/opt/dbinfer/venv: Python" in shell(machine, "dbinfer host-venv /opt/dbinfer/venv")
    with subtests.test("where it was made is named nowhere, what is compiled is there"):
        shell(machine, "! grep -rl /tmp/tmp. /opt/dbinfer")
        shell(machine, "ls /opt/dbinfer/venv/lib/python3*/site-packages/numpy/__pycache__/__init__.*.pyc")
    with subtests.test("engine and metrics"):
        scored = 'psql -d shop -c "SELECT label, (dbinfer.classify(img)).label FROM photos"'
        said = shell(
            machine, su("postgres", f"export DBINFER_DSN=dbname=shop; {LOAD} --isolation always; {scored}")
        )
        assert len(re.findall(r"^ (\w+)\s+\| \1$", said, re.MULTILINE)) == 6
        assert "ready" in shell(machine, "cat /var/log/dbinfer-engine")
        assert 'dbinfer_engines{host=""} 1.0' in shell(machine, READ)
    with subtests.test("a worker"):
        shell(machine, su("postgres", "createdb files -O dbinfer"))
        shell(machine, "echo 'DBINFER_DSN=dbname=files' > /etc/dbinfer/worker.env")
        asked = "psql -d files -c \"SELECT dbinfer.request(img) FROM photos WHERE label = 'green' LIMIT 1\""
        shell(
            machine,
            su("dbinfer", f"export DBINFER_DSN=dbname=files; dbinfer install --tables-only; {LOAD}; {asked}"),
        )
        shell(machine, f"{SYSTEMCTL} systemctl enable --now dbinfer-worker")
        answer = "SELECT (dbinfer.answer(1, 120)::dbinfer.classification).label"
        assert "green" in shell(machine, su("dbinfer", f"psql -d files -c '{answer}'"))
    with subtests.test("units"):
        shell(machine, "systemd-analyze verify /lib/systemd/system/dbinfer-*.service")
    shell(machine, "apt-get remove -y dbinfer; test ! -e /opt/dbinfer; test ! -e /usr/bin/dbinfer")


def test_the_page_names_this_version() -> None:
    assert set(re.findall(r"dbinfer[-_](\d[\d.]*\d)[-._]", PAGE.read_text(encoding="utf-8"))) == {__version__}
