"""Empty machines, on which the commands of a page of the documentation run."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from containers import ROOT, docker, need, run

PLACE = "/srv/empty"


def commands(page: str, section: str) -> str:
    """Return the commands of a section of a page of docs/how-to."""
    text = (ROOT / "docs" / "how-to" / page).read_text(encoding="utf-8")
    return "\n".join(
        re.findall(r"^\$ (.*)$", text.split(f"\n## {section}\n")[1].split("\n## ")[0], re.MULTILINE)
    )


@dataclass(frozen=True)
class Machine:
    """A container in which nothing runs; `name` is its own."""

    name: str

    def shell(self, script: str, timeout: float = 1800) -> str:
        """Run commands as root in the folder of what was carried there; stop at the first one that fails."""
        start = "set -eu; export DEBIAN_FRONTEND=noninteractive PATH=/opt/dbinfer/client/bin:$PATH\n"
        return docker("exec", self.name, "bash", "-c", start + script, timeout=timeout)

    def su(self, user: str, script: str) -> str:
        """Run them as a user."""
        return self.shell(
            f"chmod -R a+rX .; su {user} -s /bin/bash <<'END'\nset -eu; cd {PLACE}\n{script}\nEND"
        )


@contextmanager
def machine(image: str, carried: Path, *words: str, hint: str = "") -> Iterator[Machine]:
    """Give a machine of an image, in whose folder lies what a user has carried there."""
    need(image, hint)
    name = f"dbinfer-machine-{uuid.uuid4().hex[:8]}"
    docker("run", "-d", "--init", "--name", name, "-w", PLACE, *words, image, "sleep", "infinity")
    try:
        docker("cp", f"{carried}/.", f"{name}:{PLACE}")
        yield Machine(name)
    finally:
        run(["docker", "rm", "-f", name])
