"""The hosts of a run: a:2,b:2, checked before anything is started."""

from __future__ import annotations

import shutil
import socket
import subprocess

from dbinfer.errors import TrainError, UsageError
from dbinfer.train.options import TrainJob

# ssh must not ask: a password cannot be typed, a new host's key is taken, a changed key remains an error
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=accept-new")


def hosts_of(job: TrainJob) -> dict[str, int]:
    """Return how many ranks run on each host; without --hosts all run here."""
    return slots_of(job.hosts, job.ranks, "ranks") if job.hosts else {"localhost": job.ranks}


def slots_of(hosts: str, asked: int, what: str) -> dict[str, int]:
    """Return how many processes run on each host of a:2,b:2.

    Raises:
        UsageError: the text cannot be understood, or its slots are not as many as the processes.
    """
    slots: dict[str, int] = {}
    for entry in hosts.split(","):
        host, _, count = entry.strip().partition(":")
        # ssh would take a name with a dash in front for an option
        if not host or host.startswith("-") or host in slots or not (count.isdigit() and int(count)):
            raise UsageError(
                f"hosts is {hosts!r}, but must be HOST:{what.upper()},HOST:{what.upper()}", "Example: a:2,b:2"
            )
        slots[host] = int(count)
    if sum(slots.values()) != asked:
        raise UsageError(
            f"the hosts have {sum(slots.values())} slots, but {asked} {what} were requested",
            f"Set --{what} to the sum of the numbers in --hosts.",
        )
    return slots


def is_here(host: str) -> bool:
    """Return whether the name is this machine's, on which processes start without ssh."""
    return host in ("localhost", "127.0.0.1", socket.gethostname())


def check_reachable(hosts: dict[str, int]) -> None:
    """Raise TrainError where a host does not let this user in by ssh without a password."""
    for host in hosts:
        if is_here(host):
            continue
        reason = _ssh(host)
        if reason is not None:
            raise TrainError(
                f"the host {host} cannot be reached: {reason}",
                f"'ssh {host} true' must work without a password, and dbinfer must be in the same folder there.",
            )


def _ssh(host: str) -> str | None:
    if shutil.which("ssh") is None:
        return "ssh is not installed here"
    try:
        answer = subprocess.run(
            [*SSH, host, "true"],
            capture_output=True,
            text=True,
            check=False,
            timeout=15,
            # ssh would read what is typed for the next command
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "ssh did not answer within 15 seconds"
    lines = answer.stderr.strip().splitlines()
    return None if answer.returncode == 0 else lines[-1].rstrip(".") if lines else "ssh failed"
