"""pg_upgrade from PostgreSQL 15 to 17, each with its own PL/Python, by docs/how-to/upgrade.md alone."""

from __future__ import annotations

import re
import subprocess
import uuid
from pathlib import Path

import tiny_models
from containers import ROOT, docker, need, run
from outside import write_colours

PAGE = ROOT / "docs" / "how-to" / "upgrade.md"
BASE = "debian:bookworm-slim"
BEFORE = r"""
apt-get update
apt-get install -y postgresql-15 postgresql-plpython3-15 python3-venv
python3 -m venv /opt/dbinfer/client
pip install -q dbinfer-*.whl
dbinfer host-venv /opt/dbinfer/venv
pg_ctlcluster 15 main start
su postgres -c "createdb shop"
su postgres -c "dbinfer install --venv /opt/dbinfer/venv --usage on"
su postgres -c "dbinfer deploy colours.xml"
su postgres -c "dbinfer load photos --table photos --label-from folder"
"""
# Debian 13's server with the Python that its PL/Python runs; all else stays Debian 12's
NEWER = r"""
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ ! -s "$file" ] || sed 's/bookworm/trixie/g' "$file" >"/etc/apt/sources.list.d/newer.${file##*.}"
done
apt-get update
apt-get install -y python3.13-venv python3-pip-whl python3-setuptools-whl
"""
ASK = """su postgres -c 'psql -d shop -c "SELECT label, (dbinfer.classify(img)).label FROM photos"'"""
LEFT = """su postgres -c 'psql -d shop -Atc "SELECT name, version, digest, created_at FROM dbinfer.model_versions"'"""


def test_pg_upgrade_takes_dbinfer_along(compose: None, tmp_path: Path) -> None:
    need(BASE, "")
    subprocess.run(["bash", "scripts/dist", tmp_path], cwd=ROOT, check=True, capture_output=True)
    tiny_models.colour_classifier(tmp_path)
    write_colours(tmp_path / "photos", 2)
    section = PAGE.read_text(encoding="utf-8").split("\n## A newer PostgreSQL\n")[1].split("\n## ")[0]
    page = "\n".join(re.findall(r"^\$ (.*)$", section, re.MULTILINE))
    name = f"dbinfer-upgrade-{uuid.uuid4().hex[:8]}"
    docker("run", "-d", "--init", "--name", name, "-w", "/srv/empty", BASE, "sleep", "infinity")

    def shell(script: str) -> str:
        start = (
            "set -eu; chmod -R a+rX .; export DEBIAN_FRONTEND=noninteractive DBINFER_DSN=dbname=shop "
            "PATH=/opt/dbinfer/client/bin:$PATH\n"
        )
        return docker("exec", name, "bash", "-c", start + script, timeout=1800)

    try:
        docker("cp", f"{tmp_path}/.", f"{name}:/srv/empty")
        shell(BEFORE)
        asked, left = shell(ASK), shell(LEFT)
        assert len(re.findall(r"^ (\w+)\s+\| \1$", asked, re.MULTILINE)) == 6
        said = shell(NEWER + page)
        assert "All is well." in said
        assert "python: 3.13" in said
        assert "PostgreSQL 17" in shell("su postgres -c 'psql -d shop -Atc \"SELECT version()\"'")
        assert (shell(ASK), shell(LEFT)) == (asked, left)
    finally:
        run(["docker", "rm", "-f", name])
