"""docker/training: two hosts train one model over ssh, lose a host, and go on where they were."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any

import pytest
from containers import Project, docker

TOGETHER = ("--ranks", "2", "--hosts", "host1:1,host2:1", "--launcher", "mpi")
NEVER = 500  # epochs: nobody waits for the end of it


def train(project: Project, out: str, epochs: int, *more: str, check: bool = True) -> Any:
    """Train the digits on both hosts."""
    words = ("dbinfer", "train", "digits", "--data", "digits", "--epochs", str(epochs), "--out", out)
    return project.execute("host1", *words, *TOGETHER, *more, check=check, timeout=900)


def read_run(project: Project, out: str) -> Any:
    """Return what run.json says."""
    return json.loads(project.execute("host1", "cat", f"{out}/run.json").stdout)


def test_two_hosts_train_one_model(training: Project) -> None:
    train(training, "/work/two", 2)
    run = read_run(training, "/work/two")
    assert run["hosts"] == ["host1", "host2"]
    assert run["ranks"] == 2
    manifest = json.loads(training.execute("host2", "cat", "/work/two/manifest.json").stdout)
    assert manifest["provenance"]["training"]["hosts"] == ["host1", "host2"]


def test_gloo_trains_over_the_same_ssh(training: Project) -> None:
    train(training, "/work/gloo", 1, "--launcher", "gloo")
    assert read_run(training, "/work/gloo")["hosts"] == ["host1", "host2"]


@pytest.mark.parametrize("strategy", ["downpour", "sandblaster"])
def test_servers_and_workers_on_two_hosts(training: Project, strategy: str) -> None:
    """They listen in the network of the two containers, and nowhere else."""
    out, address = f"/work/{strategy}", training.execute("host1", "hostname", "-i").stdout.split()[0]
    network = f"{address.rpartition('.')[0]}.0/24"
    more = ("--strategy", strategy, "--private-network", network, "--set", "dropout=0", "--servers", "2")
    train(training, out, 1, *more)
    run = read_run(training, out)
    assert [one.rpartition(":")[0] == address for one in run["cluster"]["worker"]] == [True, False]
    addresses = [one for role in run["cluster"].values() for one in role]
    assert {one.rpartition(".")[0] for one in addresses} == {address.rpartition(".")[0]}
    assert min(run["done"]) > 0


def test_a_lost_host_ends_the_run_and_resume_goes_on(training: Project) -> None:
    process = _start(training, "/work/lost")
    try:
        _await_epoch(training, "/work/lost", process)
        docker("kill", training.container("host2"))
        output, _ = process.communicate(timeout=300)
    finally:
        process.kill()
        docker("start", training.container("host2"))
    assert process.returncode == 1, output
    assert "--resume" in output
    training.wait("host2")
    done = _epochs(training, "/work/lost")
    train(training, "/work/lost", done[-1] + 1, "--resume")
    history = read_run(training, "/work/lost")["history"]
    assert [entry["epoch"] for entry in history] == list(range(1, done[-1] + 2))


def test_a_host_that_is_not_there_is_named(training: Project) -> None:
    done = train(training, "/work/none", 1, "--hosts", "host1:1,host3:1", check=False)
    assert done.returncode == 1
    assert "host3" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_keys_were_made_at_the_start(training: Project) -> None:
    """The image has none; those of the group are readable by its user only, and sshd is no root."""
    image = training.values["DBINFER_TRAINING_IMAGE"]
    hidden = "find / -xdev ( -name 'ssh_host_*key*' -o -name 'id_*' -o -path '/keys/*' ) -type f"
    find = hidden.replace("(", "\\(").replace(")", "\\)")
    inside = docker("run", "--rm", image, "bash", "-c", f"{find} 2>/dev/null; true").splitlines()
    assert [path for path in inside if path.startswith(("/etc/ssh", "/home", "/root", "/keys"))] == []
    owners = training.execute("host1", "stat", "-c", "%n %a %u", "/keys/user", "/keys/host").stdout.split(
        "\n"
    )
    assert owners[:2] == ["/keys/user 600 10001", "/keys/host 600 10001"]
    assert training.execute("host1", "id", "-u").stdout.strip() == "10001"


def _start(project: Project, out: str) -> subprocess.Popen[str]:
    words = (
        "dbinfer",
        "train",
        "digits",
        "--data",
        "digits",
        "--epochs",
        str(NEVER),
        "--out",
        out,
        *TOGETHER,
    )
    command = ["docker", "exec", project.container("host1"), *words]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def _epochs(project: Project, out: str) -> list[int]:
    script = (
        "import sys, pathlib; from dbinfer.train import checkpoint; "
        "print(*checkpoint.epochs(pathlib.Path(sys.argv[1])))"
    )
    return [int(word) for word in project.execute("host1", "python", "-c", script, out).stdout.split()]


def _await_epoch(project: Project, out: str, process: subprocess.Popen[str]) -> None:
    """Return when the run has kept a checkpoint."""
    deadline = time.monotonic() + 300
    while not _epochs(project, out):
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < deadline, "no epoch was done within 300 s"
        time.sleep(1)


def test_a_network_lies_split_over_two_hosts(training: Project) -> None:
    address = training.execute("host1", "hostname", "-i").stdout.split()[0]
    network = f"{address.rpartition('.')[0]}.0/24"
    train(training, "/work/split", 1, "--strategy", "split", "--private-network", network)
    run = read_run(training, "/work/split")
    assert run["hosts"] == ["host1", "host2"]
    assert run["mesh"] == [1, 2]
    assert max(run["share_of_parameters"]) <= 0.55
