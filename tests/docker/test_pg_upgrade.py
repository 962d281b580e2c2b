"""pg_upgrade from PostgreSQL 15 to 17, each with its own PL/Python, by docs/how-to/upgrade.md alone."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

import tiny_models
from machines import commands, machine
from outside import write_colours

BASE = "debian:bookworm-slim"
BEFORE = r"""
apt-get update
apt-get install -y postgresql-15 postgresql-plpython3-15 python3-venv
python3 -m venv /opt/dbinfer/client
pip install -q dbinfer-*.whl
dbinfer host-venv /opt/dbinfer/venv
pg_ctlcluster 15 main start
"""
BEGIN = """
export DBINFER_DSN=dbname=shop
createdb shop
dbinfer install --venv /opt/dbinfer/venv --usage on
dbinfer deploy colours.xml
dbinfer load photos --table photos --label-from folder
"""
# Debian 13's server with the Python that its PL/Python runs; all else stays Debian 12's
NEWER = r"""
for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    [ ! -s "$file" ] || sed 's/bookworm/trixie/g' "$file" >"/etc/apt/sources.list.d/newer.${file##*.}"
done
apt-get update
apt-get install -y python3.13-venv python3-pip-whl python3-setuptools-whl
"""
ASK = 'psql -d shop -c "SELECT label, (dbinfer.classify(img)).label FROM photos"'
LEFT = 'psql -d shop -Atc "SELECT name, version, digest, created_at FROM dbinfer.model_versions"'


def test_pg_upgrade_takes_dbinfer_along(compose: None, release: Path, tmp_path: Path) -> None:
    shutil.copytree(release, tmp_path, dirs_exist_ok=True)
    tiny_models.colour_classifier(tmp_path)
    write_colours(tmp_path / "photos", 2)
    with machine(BASE, tmp_path) as host:
        host.shell(BEFORE)
        host.su("postgres", BEGIN)
        asked, left = host.su("postgres", ASK), host.su("postgres", LEFT)
        assert len(re.findall(r"^ (\w+)\s+\| \1$", asked, re.MULTILINE)) == 6
        said = host.shell(NEWER + commands("upgrade.md", "A newer PostgreSQL"))
        assert "All is well." in said
        assert "python: 3.13" in said
        assert "PostgreSQL 17" in host.su("postgres", "psql -d shop -Atc 'SELECT version()'")
        assert (host.su("postgres", ASK), host.su("postgres", LEFT)) == (asked, left)
