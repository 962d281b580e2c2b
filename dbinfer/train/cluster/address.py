"""Where the processes of a cluster listen: on loopback, or on this host's address in a named private network.

TensorFlow's protocol and JAX's ask nobody who he is, and TensorFlow's runs whatever he sends. So there is no other
choice.
"""

from __future__ import annotations

import ipaddress
import socket

from dbinfer.errors import TrainError, UsageError
from dbinfer.train.hosts import hosts_of, is_here
from dbinfer.train.options import TrainJob

LOOPBACK = "127.0.0.1"
# Not ip_network.is_private, which says yes to 0.0.0.0/0
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
            "Name it, because everybody who reaches these ports may run what he likes: --private-network 10.1.2.0/24",
        )


def own_address(network: str) -> str:
    """Return this host's address in the network; without one that of loopback.

    Raises:
        TrainError: it has none.
    """
    if not network:
        return LOOPBACK
    named = ipaddress.IPv4Network(network)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            # Sends nothing: it only asks from which address this host would
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
    """Return a socket on this port, or on any free one for 0; it keeps others off until TensorFlow listens there.

    Raises:
        TrainError: it is in use.
    """
    # Asked here, because TensorFlow's own servers share a port without a word
    held = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    # As TensorFlow's: the connections of a worker that died may linger, and the two do not exclude each other
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
