"""Builds an engine's image, runs the tests of this tree in it, and fetches what they wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tarfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from engines import LEFT_OUT, Engine

ROOT = Path(__file__).parents[2]
# What of this tree goes into the container; tests read the documentation and the Dockerfiles, too
TREE = ("dbinfer", "docker", "docs", "models", "scripts", "sql", "tests", "udf", "build/matrix/digits")
TREE_FILES = ("CHANGELOG.md", "CONTRIBUTING.md", "LICENSE", "Makefile", "README.md", "pyproject.toml")
# a test looks at the sockets of the server's processes, which belong to another user
RIGHTS = ("--cap-add", "SYS_PTRACE")
PHASE = re.compile(r"^matrix: (\w+)$|\[\s*(\d+)%\]")


class CannotBeHad(Exception):  # noqa: N818 - a finding, which the table shows
    """An engine that this machine cannot run, and why."""


def ready(base: str) -> None:
    """Make sure that a base image is here.

    Raises:
        CannotBeHad: it is not, and cannot be pulled.
    """
    if _docker("image", "inspect", base).returncode == 0:
        return
    pulled = _docker("pull", "-q", base)
    if pulled.returncode:
        raise CannotBeHad(f"the base image {base}: {_last(pulled.stderr)}")


def build(engine: Engine, log: Path) -> None:
    """Build the engine's image; from the cache where neither packages nor pins have changed.

    Raises:
        CannotBeHad: a package of the distribution or of Python is not to be had.
    """
    ready(engine.base)
    words = [f"--build-arg={name}={value}" for name, value in engine.build_arguments.items()]
    file = ROOT / "tests/matrix/Dockerfile"
    done = _docker("build", "-f", str(file), "-t", engine.image, *words, str(ROOT))
    log.write_text(done.stdout + done.stderr)
    if done.returncode:
        raise CannotBeHad(f"its image cannot be built: {_last(done.stdout + done.stderr)} ({log})")


def run(engine: Engine, folder: Path, words: Iterable[str], progress: Callable[[str], None]) -> int:
    """Run tests and bench in a container, into files of this folder; return the container's exit status."""
    ignored = [f"--ignore-glob=*/{pattern}" for pattern in LEFT_OUT]
    with (
        _container(engine, [*ignored, *words]) as name,
        (folder / "log.txt").open("w") as log,
    ):
        _send(name)
        status = _follow(["docker", "start", "-a", name], log, progress)
        _docker("cp", f"{name}:/out/.", str(folder))
    return status


@contextmanager
def _container(engine: Engine, words: list[str]) -> Iterator[str]:
    name = f"dbinfer-matrix-{engine.major}"
    _docker("rm", "-f", "-v", name)
    volume = f"{name}-runtime:/var/lib/dbinfer/runtime"
    made = _docker(
        *("create", "--init", "--name", name, "--shm-size", "1g", *RIGHTS, "-v", volume),
        *(engine.image, "bash", "tests/matrix/inside", *words),
    )
    if made.returncode:
        raise CannotBeHad(f"its container cannot be made: {_last(made.stderr)}")
    try:
        yield name
    finally:
        _docker("rm", "-f", "-v", name)


def _send(name: str) -> None:
    """Write this tree into the container as it is here, committed or not."""
    with subprocess.Popen(["docker", "cp", "-", f"{name}:/work"], stdin=subprocess.PIPE) as copy:
        assert copy.stdin is not None
        with tarfile.open(mode="w|", fileobj=copy.stdin) as tar:
            for part in (*TREE, *TREE_FILES):
                tar.add(ROOT / part, part, filter=_source)


def _source(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    if member.name.endswith(("__pycache__", ".pyc")):
        return None
    # as root's in the container, whoever has cloned the tree here
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    return member


def _follow(command: list[str], log: IO[str], progress: Callable[[str], None]) -> int:
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as running:
        assert running.stdout is not None
        for phase in phases(_written(running.stdout, log)):
            progress(phase)
    return running.returncode


def _written(lines: Iterable[str], log: IO[str]) -> Iterator[str]:
    for line in lines:
        log.write(line)
        log.flush()
        yield line


def phases(lines: Iterable[str]) -> Iterator[str]:
    """Yield what a container is at, each time that its output says something new."""
    now = ""
    for line in lines:
        found = PHASE.search(line)
        if found is None:
            continue
        now = found[1] or now
        yield now if found[1] else f"{now} {found[2]} %"


def fresh(folder: Path) -> Path:
    """Return the folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def _docker(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["docker", *words],
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
        env={**os.environ, "DOCKER_BUILDKIT": os.environ.get("DOCKER_BUILDKIT", "0")},
    )


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "E: "))]
    return (errors or lines or ["no reason given"])[-1]
