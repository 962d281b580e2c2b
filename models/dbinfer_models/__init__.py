"""The zoo: Keras networks, each with the manifest that says how images reach it.

Listing the networks needs no TensorFlow; building one does.
"""

from __future__ import annotations

from dbinfer_models._files import write_manifest
from dbinfer_models._network import Network
from dbinfer_models.registry import NETWORKS, network

__all__ = ["NETWORKS", "Network", "network", "write_manifest"]
