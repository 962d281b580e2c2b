"""Which server answers: what its version string says, and what its catalog has."""

from dbinfer.relatives.features import Features, probe
from dbinfer.relatives.versions import STRANGERS, Product, product

__all__ = ["STRANGERS", "Features", "Product", "probe", "product"]
