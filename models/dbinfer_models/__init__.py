"""The zoo: Keras networks, each with the manifest that says how images reach it.

Listing the networks needs no TensorFlow; building one does.
"""

from __future__ import annotations

from dbinfer_models import alexnet, digits, finder, unet, vgg19
from dbinfer_models._network import VOID, Network, numbered, write_manifest

__all__ = ["NETWORKS", "VOID", "Network", "network", "numbered", "write_manifest"]
NETWORKS: dict[str, Network] = {
    entry.name: entry
    for entry in (
        digits.NETWORK,
        unet.NETWORK,
        finder.NETWORK,
        vgg19.NETWORK,
        vgg19.NETWORK_CIFAR,
        alexnet.NETWORK,
    )
}


def network(name: str) -> Network:
    """Return a network by its name.

    Raises:
        KeyError: there is none; the message names those there are.
    """
    if name not in NETWORKS:
        raise KeyError(f"no network {name!r} in the zoo; there are {', '.join(sorted(NETWORKS))}")
    return NETWORKS[name]
