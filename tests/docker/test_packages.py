"""A wheel, a source and a Debian package, installed on other distributions by docs/how-to/install.md alone."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
import tiny_models
from containers import ROOT
from machines import Machine, commands, machine
from outside import write_colours

from dbinfer.base.version import __version__

BASES = ("ubuntu:jammy", "debian:bookworm-slim", "ubuntu:noble", "debian:trixie-slim")
WHEEL, SOURCE = f"dbinfer-{__version__}-py3-none-any.whl", f"dbinfer-{__version__}.tar.gz"


@pytest.fixture(scope="module")
def carried(release: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which a user has the release, a model and photos."""
    folder = tmp_path_factory.mktemp("carried")
    shutil.copytree(release, folder, dirs_exist_ok=True)
    tiny_models.colour_classifier(folder)
    write_colours(folder / "photos", 2)
    return folder


@pytest.fixture(params=BASES)
def empty(request: pytest.FixtureRequest, compose: None, carried: Path) -> Iterator[Machine]:
    with machine(request.param, carried) as made:
        yield made


def test_the_page_alone_is_enough(empty: Machine, subtests: pytest.Subtests) -> None:
    said = empty.shell(commands("install.md", "A machine of its own"))
    for colour in ("red", "green", "blue"):
        assert len(re.findall(rf"^ {colour}\s+\| {colour}$", said, re.MULTILINE)) == 2
    with subtests.test("a server that is there"):
        started = "pg_ctlcluster $(ls /usr/lib/postgresql) main start\n"
        said = empty.shell(started + commands("install.md", "A server that is there"))
        assert "made, tried as postgres" in said
        assert "is installed" in said or "installed dbinfer" in said
    with subtests.test("without a network"):
        python = empty.shell("python3 -c 'import sys; print(\"%d.%d\" % sys.version_info[:2])'").strip()
        said = empty.shell(commands("install.md", "Hosts without a network").replace("3.11", python))
        assert "/opt/dbinfer/venv-offline: Python" in said
        empty.shell("dbinfer host-venv /opt/dbinfer/venv-plain")
    with subtests.test("from the source"):
        empty.shell(
            f"python3 -m venv /opt/source; /opt/source/bin/pip install -q {SOURCE}; "
            "/opt/source/bin/dbinfer --version; "
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
LOAD = "dbinfer load photos --table photos --label-from folder && dbinfer deploy colours.xml"
READ = "python3 -c 'import urllib.request as r; print(r.urlopen(\"http://127.0.0.1:9187/metrics\").read().decode())'"


def test_a_debian_package(empty: Machine, subtests: pytest.Subtests) -> None:
    """What the page says makes it and installs it; what its units start does its work; nothing of it stays."""
    server = commands("install.md", "A machine of its own").split("\npython3 -m venv")[0]
    # which has systemd-analyze
    empty.shell(f"{server}\napt-get install -y --no-install-recommends systemd")
    empty.shell("pg_ctlcluster $(ls /usr/lib/postgresql) main start")
    empty.shell(
        SYSTEMCTL
        + commands("install.md", "A Debian package").replace("amd64", "$(dpkg --print-architecture)")
    )
    with subtests.test("the environment is the one that this release names"):
        assert "/opt/dbinfer/venv: Python" in empty.shell("dbinfer host-venv /opt/dbinfer/venv")
    with subtests.test("where it was made is named nowhere, what is compiled is there"):
        empty.shell("! grep -rl /tmp/tmp. /opt/dbinfer")
        empty.shell("ls /opt/dbinfer/venv/lib/python3*/site-packages/numpy/__pycache__/__init__.*.pyc")
    with subtests.test("engine and metrics"):
        scored = 'psql -d shop -c "SELECT label, (dbinfer.classify(img)).label FROM photos"'
        said = empty.su("postgres", f"export DBINFER_DSN=dbname=shop\n{LOAD} --isolation always\n{scored}")
        assert len(re.findall(r"^ (\w+)\s+\| \1$", said, re.MULTILINE)) == 6
        assert "ready" in empty.shell("cat /var/log/dbinfer-engine")
        assert 'dbinfer_engines{host=""} 1.0' in empty.shell(READ)
    with subtests.test("a worker"):
        empty.su("postgres", "createdb files -O dbinfer")
        empty.shell("echo 'DBINFER_DSN=dbname=files' > /etc/dbinfer/worker.env")
        asked = "psql -d files -c \"SELECT dbinfer.request(img) FROM photos WHERE label = 'green' LIMIT 1\""
        empty.su(
            "dbinfer", f"export DBINFER_DSN=dbname=files\ndbinfer install --tables-only\n{LOAD}\n{asked}"
        )
        empty.shell(f"{SYSTEMCTL} systemctl enable --now dbinfer-worker")
        answer = "SELECT (dbinfer.answer(1, 120)::dbinfer.classification).label"
        assert "green" in empty.su("dbinfer", f'psql -d files -c "{answer}"')
    with subtests.test("units"):
        empty.shell("systemd-analyze verify /lib/systemd/system/dbinfer-*.service")
    empty.shell("apt-get remove -y dbinfer; test ! -e /opt/dbinfer; test ! -e /usr/bin/dbinfer")


def test_the_page_names_this_version() -> None:
    page = (ROOT / "docs" / "how-to" / "install.md").read_text(encoding="utf-8")
    assert set(re.findall(r"dbinfer[-_](\d[\d.]*\d)[-._]", page)) == {__version__}
