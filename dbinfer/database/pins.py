"""Which packages dbinfer needs: the backends' in the versions that it names for a Python, and those of the extras."""

from __future__ import annotations

import operator
import re
import shlex
import sys
from importlib import metadata, resources
from importlib.util import find_spec

# With its digests on the lines below it
PIN = re.compile(r'([\w-]+)==([\w.]+)(?:; python_version (<|>=|==) "(3\.\d+)")? \\\n((?:    --hash=.*\n)+)')
VERSION = re.compile(r"3\.\d+")
# Packages whose modules have other names
MODULES = {"pillow": "PIL", "scikit-learn": "sklearn", "tensorflow-cpu": "tensorflow"}
COMPARE = {"<": operator.lt, ">=": operator.ge, "==": operator.eq}


def text() -> str:
    """Return the list as pip takes it."""
    return (resources.files("dbinfer_udf") / "requirements.txt").read_text()


def versions(python: str) -> dict[str, str]:
    """Return package -> version for a Python, for example '3.9' or '3.11.2'."""
    return {package: version for package, version, _ in _pinned(python)}


def listed(python: str) -> str:
    """Return the list as pip takes it where it runs on another Python than that."""
    return "".join(f"{package}=={version} \\\n{digests}" for package, version, digests in _pinned(python))


def _pinned(python: str) -> list[tuple[str, str, str]]:
    return [
        (package, version, digests)
        for package, version, sign, than, digests in PIN.findall(text())
        if not sign or COMPARE[sign](numbers(python)[:2], numbers(than))
    ]


def plain(name: str) -> str:
    """Return a package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def openvino_note(python: str, found: str) -> str:
    """Return a note on a backend's OpenVINO that is older than this client's; empty where it is not.

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


def lacking(extra: str) -> list[str]:
    """Return the packages of one of our extras that are not installed, as pip takes them."""
    return [package for package in _of_extra(extra) if find_spec(_module(package)) is None]


def _of_extra(extra: str) -> list[str]:
    lines = [line.replace('"', "'").partition(";") for line in metadata.requires("dbinfer") or []]
    return [package.strip() for package, _, marker in lines if f"extra == '{extra}'" in marker]


def _module(package: str) -> str:
    name = re.split(r"[^\w.-]", package)[0]
    return MODULES.get(name, name.replace("-", "_"))


def install(extra: str) -> str:
    """Return the hint where something of an extra is missing: one command for all of it.

    It names the packages: dbinfer itself may come from a file, and pip would look for its extras elsewhere.
    """
    # all of them where none is missing: one is there, but cannot be imported
    packages = " ".join(map(shlex.quote, lacking(extra) or _of_extra(extra)))
    return f"Install what is missing: {shlex.quote(sys.executable)} -m pip install {packages}"
