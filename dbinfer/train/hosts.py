"""The hosts of a run (a:2,b:2), how processes start there, and the addresses on which they listen.

The protocols of TensorFlow and JAX authenticate nobody, and TensorFlow's runs whatever it is sent. So processes listen
on loopback or in a private network only.
"""

from __future__ import annotations

import ipaddress
import os
import shlex
import shutil
import socket
import subprocess
from collections.abc import Mapping, Sequence

from dbinfer.base.errors import TrainError, UsageError
from dbinfer.train.options import TrainJob

# ssh must not ask: nobody can type a password; a new host's key is accepted, a changed key remains an error
SSH = ("ssh", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5", "-o", "StrictHostKeyChecking=accept-new")
# Variables that a process on another host needs from its start on; it gets others by its standard input
PASSED = ("PYTHONPATH", "TF_CPP_MIN_LOG_LEVEL", "KERAS_BACKEND", "PYTHONUNBUFFERED")


def hosts_of(job: TrainJob) -> dict[str, int]:
    """Return how many ranks run on each host; without --hosts all run here."""
    return slots_of(job.hosts, job.ranks, "ranks") if job.hosts else {"localhost": job.ranks}


def slots_of(hosts: str, asked: int, what: str) -> dict[str, int]:
    """Return how many processes run on each host of a:2,b:2.

    Raises:
        UsageError: the text cannot be understood, or has another number of slots than there are processes.
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


def started_on(host: str, command: Sequence[str], environment: Mapping[str, str]) -> list[str]:
    """Return the command that starts this one on a host in this same folder: by ssh, unless the host is this one."""
    if is_here(host):
        return list(command)
    words = [f"{name}={environment[name]}" for name in PASSED if name in environment]
    return [*SSH, host, f"cd {shlex.quote(os.getcwd())} && exec {shlex.join(['env', *words, *command])}"]


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
            # Else ssh reads what is typed for the next command
            stdin=subprocess.DEVNULL,
        )
    except subprocess.TimeoutExpired:
        return "ssh did not answer within 15 seconds"
    lines = answer.stderr.strip().splitlines()
    return None if answer.returncode == 0 else lines[-1].rstrip(".") if lines else "ssh failed"


LOOPBACK = "127.0.0.1"
# Not ip_network.is_private, which is true of 0.0.0.0/0
PRIVATE = [
    ipaddress.IPv4Network(text) for text in ("10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "127.0.0.0/8")
]


def check_network(job: TrainJob) -> None:
    """Raise UsageError where the processes would listen where strangers can reach them."""
    text = job.private_network
    if text:
        try:
            network = ipaddress.IPv4Network(text)
        except ValueError as err:
            raise UsageError(
                f"private_network is {text!r}, but must be an IPv4 network",
                "Example: --private-network 10.1.2.0/24",
            ) from err
        if not any(network.subnet_of(one) for one in PRIVATE):
            raise UsageError(
                f"private_network is {text!r}, but the protocol of these processes has no authentication",
                f"Name a network within {', '.join(map(str, PRIVATE))}.",
            )
    elif not all(map(is_here, hosts_of(job))):
        raise UsageError(
            f"the strategy {job.strategy} needs a private network to listen on where hosts is {job.hosts!r}",
            "Name it, because whoever reaches these ports may run any code: --private-network 10.1.2.0/24",
        )


def own_address(network: str) -> str:
    """Return this host's address in the network; without a network, that of loopback.

    Raises:
        TrainError: it has none.
    """
    if not network:
        return LOOPBACK
    named = ipaddress.IPv4Network(network)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only shows from which address this host would send
            probe.connect((str(named[min(1, named.num_addresses - 1)]), 9))
            found = probe.getsockname()[0]
        except OSError:
            found = ""
    if not found or ipaddress.IPv4Address(found) not in named:
        raise TrainError(
            f"the host {socket.gethostname()} has no address in the network {network}",
            "Name the private network that all hosts of the run share.",
        )
    return str(found)


def hold_port(address: str, port: int) -> socket.socket:
    """Return a socket on this port, or on any free one for 0; it reserves the port until TensorFlow listens there.

    Raises:
        TrainError: it is in use.
    """
    # Checked here, because TensorFlow's own servers share a port without a warning
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As TensorFlow does: connections of a worker that died may linger, and then both can bind the port
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        held.bind((address, port))
    except OSError as err:
        held.close()
        raise TrainError(
            f"port {port} of {address} cannot be used: {err.strerror}",
            "Leave out --port, or choose another: each process takes the next one.",
        ) from err
    return held
