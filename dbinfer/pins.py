"""Which versions of the backends' packages dbinfer names for a Python; they travel inside the package dbinfer_udf."""

from __future__ import annotations

import operator
import re
from importlib import metadata, resources

LINE = re.compile(r'([\w-]+)==([\w.]+)(?:; python_version (<|>=|==) "(3\.\d+)")?')
COMPARE = {"<": operator.lt, ">=": operator.ge, "==": operator.eq}


def text() -> str:
    """Return the list as pip takes it."""
    return (resources.files("dbinfer_udf") / "requirements.txt").read_text()


def versions(python: str) -> dict[str, str]:
    """Return package -> version for a Python, for example '3.9' or '3.11.2'."""
    found = {}
    for line in filter(None, map(LINE.fullmatch, text().splitlines())):
        package, version, sign, than = line.groups()
        if sign is None or COMPARE[sign](numbers(python)[:2], numbers(than)):
            found[package] = version
    return found


def openvino_note(python: str, found: str) -> str:
    """Return what there is to say on a backend's OpenVINO that is older than this client's; empty where it is not.

    `dbinfer deploy` prepares and tries models with the client's; each host tries them again
    with its own, at their first use.
    """
    ours = metadata.version("openvino")
    if not found or numbers(found) >= numbers(ours):
        return ""
    newest = numbers(found) >= numbers(versions(python).get("openvino", ""))
    why = (
        f", the newest for Python {'.'.join(python.split('.')[:2])}"
        if newest and numbers(python) < (3, 10)
        else ""
    )
    return (
        f"; its OpenVINO is older than this client's {ours.split('-')[0]}{why}: "
        "a model that only a newer OpenVINO reads is deployed, but refused there at its first use"
    )


def numbers(version: str) -> tuple[int, ...]:
    """Return a version's numbers, which compare as versions do."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])
