"""Finds an installed PostgreSQL 14 to 18 with PL/Python, and the Python that its PL/Python runs."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dbinfer.errors import ServerError

SUPPORTED = range(14, 19)
# no longer mended by its makers: only where DBINFER_PG_BIN names it
OLDEST = 13
# As Debian's packages and the RPMs of postgresql.org lay it out
PATTERNS = ("usr/lib/postgresql/*/bin", "usr/pgsql-*/bin")
INSTALL = "apt-get install postgresql postgresql-plpython3-{} (Debian, Ubuntu; scripts/bootstrap does it)"


@dataclass(frozen=True)
class Installation:
    """One PostgreSQL on this machine; `plpython` is the language's library, None when it is not installed."""

    bindir: Path
    version: str
    plpython: Path | None

    @property
    def major(self) -> int:
        """The major version, for example 15."""
        return int(self.version.split(".")[0])


def find(major: int | None = None) -> Installation:
    """Return the newest usable installation, or the one that an existing data folder needs.

    Args:
        major: the data folder's major version; None when there is no data folder yet.

    Raises:
        ServerError: no PostgreSQL, none of that version, or none with PL/Python.
    """
    versions = range(OLDEST, SUPPORTED.stop) if os.environ.get("DBINFER_PG_BIN") else SUPPORTED
    found = [one for one in map(inspect, candidates()) if one is not None and one.major in versions]
    if major is not None:
        found = [one for one in found if one.major == major]
    if not found:
        raise _not_found(major)
    usable = [one for one in found if one.plpython is not None]
    if not usable:
        newest = max(found, key=lambda one: one.major)
        raise ServerError(
            f"PostgreSQL {newest.version} in {newest.bindir} has no PL/Python (extension plpython3u)",
            f"Install it: apt-get install postgresql-plpython3-{newest.major}",
        )
    return max(usable, key=lambda one: [int(part) for part in one.version.split(".")])


def _not_found(major: int | None) -> ServerError:
    if major is None:
        return ServerError(
            f"no PostgreSQL {SUPPORTED[0]} to {SUPPORTED[-1]} is installed on this machine",
            f"Install it: {INSTALL.format(15)}, or set DBINFER_PG_BIN to the folder of its programs.",
        )
    return ServerError(
        f"the data folder was created by PostgreSQL {major}, which is not installed",
        f"Install it: apt-get install postgresql-{major} postgresql-plpython3-{major}, "
        "or choose another state folder with DBINFER_HOME.",
    )


def candidates(root: Path = Path("/")) -> list[Path]:
    """Return the folders that may hold a server's programs; $DBINFER_PG_BIN alone when it is set."""
    named = os.environ.get("DBINFER_PG_BIN")
    if named:
        return [Path(named)]
    folders = [folder for pattern in PATTERNS for folder in sorted(root.glob(pattern))]
    config = shutil.which("pg_config")
    if config:
        folders.append(Path(_output([config, "--bindir"])))
    return list(dict.fromkeys(folders))


def inspect(bindir: Path) -> Installation | None:
    """Return what is installed in this folder; None when it is no PostgreSQL server (nor is Greenplum)."""
    if not (bindir / "postgres").exists() or not (bindir / "initdb").exists():
        return None
    # Greenplum has programs of these names, too, but says (Greenplum Database)
    match = re.search(r"\(PostgreSQL\) (\d+)(?:\.(\d+))?", _output([str(bindir / "postgres"), "--version"]))
    if match is None:
        return None
    version = f"{match[1]}.{match[2] or 0}"
    return Installation(bindir, version, _plpython(bindir))


def _plpython(bindir: Path) -> Path | None:
    config = str(bindir / "pg_config")
    control = Path(_output([config, "--sharedir"]), "extension", "plpython3u.control")
    folder = Path(_output([config, "--pkglibdir"]))
    library = next(
        (folder / name for name in ("plpython3.so", "plpython3.dylib") if (folder / name).exists()), None
    )
    return library if control.exists() else None


def _output(args: list[str]) -> str:
    try:
        return subprocess.run(
            args, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL
        ).stdout.strip()
    except OSError:
        return ""


def linked_python(plpython: Path) -> Path:
    """Return the Python program of the library that PL/Python is linked with.

    Raises:
        ServerError: the library or a Python program of its version is not there.
    """
    # Several Pythons may be installed: only the library knows which one it was built for
    linked = re.search(r"libpython(3\.\d+)\S* => (\S+)", _output(["ldd", str(plpython)]))
    if linked is None:
        raise ServerError(
            f"{plpython} is not linked with a Python library that is installed", "Reinstall PL/Python."
        )
    name = f"python{linked[1]}"
    # Debian has libpython in /usr/lib/ARCHITECTURE, a Python of its own prefix has bin beside lib
    prefixes = [Path("/usr"), *Path(linked[2]).parents]
    for program in (prefix / "bin" / name for prefix in prefixes):
        if program.exists():
            return program
    raise ServerError(
        f"PL/Python runs Python {linked[1]}, but there is no program {name} on this machine",
        f"Install it: apt-get install {name} {name}-venv",
    )
