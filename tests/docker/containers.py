"""The container engine: builds images and runs compose projects, each under a name of its own."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
RUNNING: dict[str, Project] = {}
BUILT: list[str] = []


@cache
def compose_command() -> tuple[str, ...]:
    """Return `docker compose` where it is there, else `docker-compose`; () without either."""
    if subprocess.run(["docker", "compose", "version"], capture_output=True, check=False).returncode == 0:
        return ("docker", "compose")
    return ("docker-compose",) if shutil.which("docker-compose") else ()


def free_port() -> int:
    """Return a port of the loopback interface that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def run(words: Sequence[str], *, env: Mapping[str, str] | None = None, timeout: float = 600) -> Any:
    """Run a command and return it with its output, whatever its exit status."""
    return subprocess.run(
        list(words),
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=timeout,
        env={**os.environ, **(env or {})},
        stdin=subprocess.DEVNULL,
    )


def docker(*words: str, timeout: float = 600) -> str:
    """Run docker and return its output; AssertionError with its words when it fails."""
    done = run(["docker", *words], timeout=timeout)
    assert done.returncode == 0, f"docker {' '.join(words)}\n{done.stdout}{done.stderr}"
    return str(done.stdout)


def need(image: str, hint: str) -> None:
    """Skip where an image is neither here nor to be had."""
    if run(["docker", "image", "inspect", image]).returncode == 0:
        return
    pulled = run(["docker", "pull", "-q", image], timeout=1800)
    if pulled.returncode:
        reason = (pulled.stderr.strip().splitlines() or ["no reason given"])[-1]
        pytest.skip(f"the base image {image} cannot be had ({reason}){hint}")


@dataclass(frozen=True)
class Project:
    """A compose project: the folder below docker/, and the values of its file's variables."""

    folder: str
    values: Mapping[str, str]
    name: str = field(default_factory=lambda: f"dbinfer-test-{uuid.uuid4().hex[:8]}")

    def compose(self, *words: str, check: bool = True, timeout: float = 600) -> Any:
        """Run a compose command on this project."""
        file = ROOT / "docker" / self.folder / "compose.yaml"
        done = run(
            [*compose_command(), "-f", str(file), "-p", self.name, *words], env=self.values, timeout=timeout
        )
        if check:
            assert done.returncode == 0, f"compose {' '.join(words)}\n{done.stdout}{done.stderr}"
        return done

    def build(self, *services: str) -> None:
        """Build the images of these services; takes minutes the first time, seconds from the engine's cache."""
        begin = time.monotonic()
        self.compose("build", *services, timeout=3600)
        BUILT.append(f"{self.folder}: {' '.join(services)} built in {time.monotonic() - begin:.0f} s")

    def up(self, *services: str) -> None:
        """Start the project and wait until these services are healthy."""
        RUNNING[self.name] = self
        self.compose("up", "-d", "--no-build", timeout=600)
        for service in services:
            self.wait(service)

    def wait(self, service: str, seconds: float = 180) -> None:
        """Return when the service is healthy; AssertionError when that takes too long."""
        deadline = time.monotonic() + seconds
        while (state := self.health(service)) != "healthy":
            assert time.monotonic() < deadline, f"{service} is {state} after {seconds} s"
            time.sleep(0.5)

    def health(self, service: str) -> str:
        """Return healthy, unhealthy, starting, or none."""
        container = self.container(service)
        if not container:
            return "none"
        return docker("inspect", "-f", "{{.State.Health.Status}}", container).strip()

    def container(self, service: str) -> str:
        """Return the id of a service's container; empty when there is none."""
        return str(self.compose("ps", "-a", "-q", service).stdout).strip()

    def execute(self, service: str, *command: str, check: bool = True, timeout: float = 600) -> Any:
        """Run a command in a service's container."""
        done = run(["docker", "exec", self.container(service), *command], timeout=timeout)
        if check:
            assert done.returncode == 0, f"{service}: {' '.join(command)}\n{done.stdout}{done.stderr}"
        return done

    def ask(self, service: str, *command: str) -> Any:
        """Run a command that prints JSON in a service's container and return what it says."""
        return json.loads(self.execute(service, *command, "--json").stdout)

    def logs(self, lines: int = 60) -> str:
        """Return the last lines of each container."""
        done = self.compose("logs", "--no-color", f"--tail={lines}", check=False)
        return str(done.stdout + done.stderr)

    def down(self, *, volumes: bool = True) -> None:
        """Remove containers and networks, and with `volumes` the data."""
        self.compose("down", "--timeout", "20", *(["-v"] if volumes else []), check=False)
        if volumes:
            RUNNING.pop(self.name, None)
