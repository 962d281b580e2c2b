"""Whether containers can be started here."""

from __future__ import annotations

import shutil
import subprocess


def lacks() -> str:
    """Return why no container can be started here; empty where one can."""
    if shutil.which("docker") is None:
        return "no container engine is installed"
    answer = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=60)
    return "the container engine does not answer (docker info)" if answer.returncode else ""
