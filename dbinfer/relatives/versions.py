"""Reads the string that a server gives as its version: PostgreSQL, Greenplum, their relatives, and who builds them."""

from __future__ import annotations

import re
from dataclasses import dataclass

# A name as it stands before its version, in parentheses alone or with the version. The first that is found counts:
# whoever descends from Greenplum may still name Greenplum, too
FAMILY = (
    ("Apache Cloudberry", "cloudberry"),
    ("Cloudberry Database", "cloudberry"),
    ("Greengage Database", "greengage"),
    ("WarehousePG", "warehousepg"),
    ("Greenplum Database", "greenplum"),
)
# Speak PostgreSQL's protocol, but are other servers, which run no PL/Python 3
STRANGERS = {"cockroachdb": "CockroachDB", "redshift": "Amazon Redshift"}
# Have a version string of their own
OTHERS = (
    (r"^CockroachDB \S+ v(\S+)", "cockroachdb"),
    (r"\bRedshift (\S+)", "redshift"),
    (r"^PostgreSQL \S+?-YB-(\S+)", "yugabytedb"),
)
BRAND = re.compile(r"\(([A-Z][A-Za-z]*(?: [A-Za-z]+)*) v?([0-9][^\s)]*)[^)]*\)")


@dataclass(frozen=True)
class Product:
    """A server as it names itself.

    Attributes:
        name: postgresql, greenplum, warehousepg, greengage, cloudberry, cockroachdb, redshift or yugabytedb.
        version: of that product.
        brand: another name and version beside it, of who builds it; "" without one.
    """

    name: str
    version: str
    brand: str = ""


def product(text: str) -> Product:
    """Return what `SELECT version()` names."""
    for pattern, name in OTHERS:
        found = re.search(pattern, text)
        if found:
            return Product(name, found.group(1).rstrip(","))
    for words, name in FAMILY:
        found = re.search(rf"\({words}\)? ([^)\s]+)", text)
        if found:
            # WarehousePG names Greenplum with the version, and itself in the last word
            last = "warehousepg" if text.rstrip().endswith("WarehousePG") else name
            return Product(last, found.group(1), _brand(text))
    return Product("postgresql", text.split()[1], _brand(text))


def _brand(text: str) -> str:
    """Return the first name in parentheses that is not of the family."""
    # what follows " on " is about machine and compiler
    for name, version in BRAND.findall(text.partition(" on ")[0]):
        if all(name != words for words, _ in FAMILY):
            return f"{name} {version}"
    return ""
