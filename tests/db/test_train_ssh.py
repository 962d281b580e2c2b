"""`dbinfer tune` and `train --strategy split` with processes on other hosts: a real sshd here, by other names."""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg2
import pytest

pytest.importorskip("optuna")

from variants import at_length

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train import TrainJob, TrainOptions, run
from dbinfer.tune import TuneOptions, tune

SSHD = shutil.which("sshd") or "/usr/sbin/sshd"
TOOLS = [SSHD, shutil.which("ssh"), shutil.which("ssh-keygen")]
pytestmark = pytest.mark.skipif(
    not all(tool and Path(tool).exists() for tool in TOOLS), reason="needs ssh and sshd"
)
SERVER = """
Port {port}
ListenAddress 127.0.0.1
HostKey {folder}/host
AuthorizedKeysFile {folder}/user.pub
PidFile none
PasswordAuthentication no
StrictModes no
PermitRootLogin yes
UsePAM no
"""
CLIENT = """
Host *
  HostName 127.0.0.1
  Port {port}
  User {user}
  IdentityFile {folder}/user
  UserKnownHostsFile {folder}/known
"""


@pytest.fixture(scope="module")
def ssh_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Start sshd with keys of its own; in bin/ lies an ssh by which every host is this one."""
    folder = tmp_path_factory.mktemp("ssh")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / name)], check=True)
    with closing(socket.socket()) as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
    values = {"port": port, "folder": folder, "user": getpass.getuser()}
    (folder / "server").write_text(SERVER.format(**values))
    (folder / "client").write_text(CLIENT.format(**values))
    (folder / "bin").mkdir()
    program = folder / "bin" / "ssh"
    program.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/client "$@"\n')
    program.chmod(0o755)
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(exist_ok=True)  # sshd wants it
    daemon = subprocess.Popen([SSHD, "-D", "-f", str(folder / "server")])
    try:
        while subprocess.run(
            [str(program), "-o", "StrictHostKeyChecking=accept-new", "x", "true"], check=False
        ).returncode:
            assert daemon.poll() is None
            time.sleep(0.1)
        yield folder
    finally:
        daemon.terminate()
        daemon.wait()


@pytest.fixture
def over_ssh(ssh_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", f"{ssh_folder / 'bin'}:{os.environ['PATH']}")


@pytest.mark.usefixtures("over_ssh")
@pytest.mark.wide
def test_workers_of_a_search_run_on_other_hosts(dsn: str, tmp_path: Path) -> None:
    """Each by a connection of its own to the database; the weights hop from host to host by the shared folder."""
    train = TrainOptions(epochs=1, val_fraction=0.2, threads=1)
    # the worse of two may be stopped early, which is not what this is about
    where = {"hosts": "one:1,two:1", "study": "ssh", "out": str(tmp_path)}
    given = TuneOptions(train=train, trials=2, workers=2, pruner="none", hop=True, **where)  # type: ignore[arg-type]
    report = tune("digits", "digits", ["lr=1e-3..1e-2:log"], given, dsn)
    assert [trial.state for trial in report.trials] == ["complete"] * 2
    assert [sorted(trial.orders[0]) for trial in report.trials] == [[0, 1]] * 2
    with closing(psycopg2.connect(dsn)) as connection, connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM dbinfer.trials WHERE study = 'ssh' AND state = 'complete'")
        assert cursor.fetchone() == (2,)


def test_a_host_that_cannot_be_reached(dsn: str, tmp_path: Path) -> None:
    given = TuneOptions(workers=2, hosts="localhost:1,nowhere.invalid:1", out=str(tmp_path))
    with pytest.raises(TrainError, match=r"the host nowhere\.invalid cannot be reached"):
        tune("digits", "digits", ["lr=1e-3..1e-2:log"], given, dsn)


@at_length
@pytest.mark.usefixtures("over_ssh")
def test_a_network_lies_split_over_two_hosts(tmp_path: Path) -> None:
    pytest.importorskip("jax")
    given = {
        "strategy": "split",
        "ranks": 2,
        "hosts": "127.0.0.1:1,127.0.0.2:1",
        "epochs": 1,
        "device": "cpu",
    }
    with pytest.raises(UsageError, match="the strategy split needs a private network to listen on"):
        run(TrainJob("digits", "digits", out=str(tmp_path), **given))  # type: ignore[arg-type]
    given["private_network"] = "127.0.0.0/8"
    found: set[str] = set()
    watch = threading.Thread(target=_watch, args=(found,), daemon=True)
    watch.start()
    result = run(TrainJob("digits", "digits", out=str(tmp_path), **given))  # type: ignore[arg-type]
    # An IPv6 socket writes an IPv4 address in this way
    assert found <= {"127.0.0.1", "[::ffff:127.0.0.1]"}
    assert found
    assert result.run["share_of_parameters"] == pytest.approx([0.5227] * 2, abs=0.01)
    assert result.metrics["val_accuracy"] > 0.8


def _watch(found: set[str]) -> None:
    """Note the addresses on which processes of the strategy split listen."""
    while True:
        for line in subprocess.run(
            ["ss", "-Hltnp"], capture_output=True, text=True, check=True
        ).stdout.splitlines():
            for pid in re.findall(r"pid=(\d+)", line):
                with contextlib.suppress(OSError):
                    if b"dbinfer.train.worker" in Path(f"/proc/{pid}/cmdline").read_bytes():
                        found.add(line.split()[3].rpartition(":")[0])
        time.sleep(0.5)


@at_length
@pytest.mark.usefixtures("over_ssh")
def test_servers_and_workers_on_two_hosts(tmp_path: Path) -> None:
    given = {
        "strategy": "downpour",
        "ranks": 2,
        "servers": 2,
        "hosts": "127.0.0.1:1,two:1",
        "private_network": "127.0.0.0/8",
        "optimizer": "adagrad",
        "epochs": 1,
        "device": "cpu",
    }
    seen: list[tuple[str, str]] = []

    def tell(event: dict[str, Any]) -> None:
        if event["event"] == "listening":
            seen.append((event["role"], event["host"]))

    result = run(TrainJob("digits", "digits", out=str(tmp_path), lr=0.02, **given), tell)  # type: ignore[arg-type]
    hosts = [
        ("chief", "localhost"),
        ("ps", "127.0.0.1"),
        ("ps", "two"),
        ("worker", "127.0.0.1"),
        ("worker", "two"),
    ]
    assert sorted(seen) == hosts
    updates = result.run["updates"]
    assert (updates["handed_out"], updates["applied"]) == (45, 45)
    assert min(result.run["done"]) > 0
