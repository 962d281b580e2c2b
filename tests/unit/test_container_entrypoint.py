"""The container's entrypoint writes the server's settings with a program of its own: it runs, without a container."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ENTRYPOINT = Path(__file__).parents[2] / "docker" / "database" / "entrypoint"


def test_its_program_prints_the_settings_of_the_server() -> None:
    (program,) = re.findall(r"<<'PY'\n(.*?)\nPY\n", ENTRYPOINT.read_text(encoding="utf-8"), re.DOTALL)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for line in ("port = 5432", "listen_addresses = '*'", "max_parallel_workers_per_gather = "):
        assert line in done.stdout
