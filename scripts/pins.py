"""Writes the digests of the pinned packages' wheels into udf/dbinfer_udf/requirements.txt, after a pin has changed:

    .venv/bin/python scripts/pins.py

The digests are those that the index of PyPI gives; pip refuses any other file then. Of
each version those wheels count that a host can take: Linux with glibc, x86_64 or aarch64, CPython 3.9 or later.
"""

from __future__ import annotations

import json
import re
import urllib.request
from pathlib import Path

from packaging.utils import InvalidWheelFilename, canonicalize_name, parse_wheel_filename

FILE = Path(__file__).resolve().parents[1] / "udf" / "dbinfer_udf" / "requirements.txt"
INDEX = "https://pypi.org/simple/{}/"
FORM = "application/vnd.pypi.simple.v1+json"
PLATFORM = re.compile(r"manylinux.*_(x86_64|aarch64)|any")
PYTHON = re.compile(r"cp3\d+|py3")
PIN = re.compile(r"([\w-]+)==([\w.]+)(; [^\\]*[^\\ ])?( \\)?")


def digests(name: str, version: str) -> list[str]:
    """Return the SHA-256 of each wheel of a version that may be installed on a host, in order."""
    request = urllib.request.Request(INDEX.format(canonicalize_name(name)), headers={"Accept": FORM})
    with urllib.request.urlopen(request, timeout=60) as answer:
        files = json.load(answer)["files"]
    found = {one["hashes"]["sha256"] for one in files if _fits(one["filename"], version)}
    if not found:
        raise SystemExit(f"the index has no wheel of {name} {version} for Linux")
    return sorted(found)


def _fits(filename: str, version: str) -> bool:
    try:
        _, found, _, tags = parse_wheel_filename(filename)
    except InvalidWheelFilename:  # a source
        return False
    # an abi with t is of a CPython without its lock
    kinds = [tag for tag in tags if PYTHON.fullmatch(tag.interpreter) and not tag.abi.endswith("t")]
    return str(found) == version and any(PLATFORM.fullmatch(tag.platform) for tag in kinds)


def main() -> None:
    """Rewrite the file."""
    lines = []
    for line in FILE.read_text().splitlines():
        pin = PIN.fullmatch(line)
        if pin:
            name, version, marker, _ = pin.groups()
            hashes = [f"    --hash=sha256:{digest}" for digest in digests(name, version)]
            lines += [f"{name}=={version}{marker or ''} \\", " \\\n".join(hashes)]
        elif not line.startswith("    --hash="):
            lines.append(line)
    FILE.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
