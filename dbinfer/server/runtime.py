"""What backends import: a virtual environment of PL/Python's own Python with the pinned packages, which pip takes from
files of known digests; checked as the server's user. That of the embedded server, and that of a host.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path

from dbinfer.base.errors import ServerError, UsageError
from dbinfer.base.options import check, documented, option
from dbinfer.base.progress import OnProgress, Say, notes, silent
from dbinfer.base.report import Report
from dbinfer.database import pins, state
from dbinfer.database.state import Home
from dbinfer.server.account import Account, discard, host_account
from dbinfer.server.cluster import find, linked_python
from dbinfer_udf.host.libraries import why_unsafe

STAMP = "dbinfer-requirements.txt"
OLDEST = (3, 9)
VERSION_CODE = "import sys; print('%d.%d' % sys.version_info[:2])"
IMPORT_CODE = """
import sys
sys.modules["openvino_telemetry"] = None  # importing openvino must not phone home
import cv2, numpy, openvino, orjson
print(sys.version_info[0], sys.version_info[1], sep=".")
"""
# Of what the pins name: its versions, as JSON
VERSIONS_CODE = """
import json, sys
from importlib import metadata
print(json.dumps({one.metadata["Name"]: one.version for one in metadata.distributions()}))
"""
# As pip begins what it says of a file that is not the one of the list
OTHER_FILE = re.compile(r"^ +(\S+) from (\S+)[^\n]*\n +Expected sha256", re.MULTILINE)
# Wheels only: to build OpenVINO or OpenCV would take hours and a compiler
PIP = ("--disable-pip-version-check", "--no-input", "--quiet", "--only-binary=:all:", "--require-hashes")


@dataclass(frozen=True)
class Python:
    """The Python that PL/Python runs: its program and its version, for example '3.11'."""

    program: Path
    version: str


def python_at(program: Path) -> Python:
    """Return the Python program with its version.

    Raises:
        ServerError: it does not run.
    """
    # -I: the caller's folder and PYTHONPATH may hold modules named like those of the standard library
    try:
        asked = subprocess.run(
            [program, "-I", "-c", VERSION_CODE], capture_output=True, text=True, check=False
        )
    except OSError as err:
        raise ServerError(
            f"the Python program {program} cannot be run: {err.strerror}", "Name another."
        ) from err
    if asked.returncode:
        raise ServerError(
            f"the Python program {program} does not run: {_last(asked.stderr)}", "Reinstall it."
        )
    return Python(program, asked.stdout.strip())


def own_venv(home: Home, python: Python) -> Path:
    """Return the folder of the runtime for this Python and the current pins, whether or not it is there."""
    digest = hashlib.sha256(pins.text().encode()).hexdigest()[:10]
    # Other pins get another folder, so that open sessions keep what they import from
    return home.runtimes / f"py{python.version}-{digest}"


def discard_old(home: Home, python: Python, say: Say) -> None:
    """Remove the runtimes of this state folder that `ensure_venv` would not return and that no running server uses.

    One without its stamp stays: another process may be making it.
    """
    servers = state.servers()
    if servers is None:
        return
    try:
        used = {Path(known.venv) for known in map(state.load, {home, *servers}) if known is not None}
    except ServerError:  # another user's server: what it imports is unknown
        return
    for venv in sorted(home.runtimes.glob("py*-*")):
        if venv not in {own_venv(home, python), *used} and (venv / STAMP).is_file() and not venv.is_symlink():
            say(f"removing {venv}, which no server uses any more")
            shutil.rmtree(venv, ignore_errors=True)


def ensure_venv(home: Home, python: Python, say: Say) -> Path:
    """Return the runtime for this Python and the current pins; make it when it is not there yet.

    Raises:
        ServerError: the venv module or pip is missing, or pip could not install (no network).
    """
    wanted, venv = pins.text(), own_venv(home, python)
    stamp = venv / STAMP
    if stamp.exists() and stamp.read_text() == wanted:
        return venv
    discard(venv)
    say(f"installing what the backends need (openvino, numpy, opencv, orjson; about 450 MB) into {venv}")
    with _whole(venv):
        _make(venv, python)
        _install(venv, wanted)
        # Last: one without it was killed while it was made, and is made again
        stamp.write_text(wanted)
    return venv


@contextmanager
def _whole(venv: Path) -> Iterator[None]:
    """Remove an environment that does not become whole, also after Ctrl-C: it would be taken for one that is there."""
    try:
        yield
    except BaseException:
        discard(venv)
        raise


def _make(venv: Path, python: Python) -> None:
    made = _run([python.program, "-I", "-m", "venv", venv])
    if made.returncode:
        raise ServerError(
            f"{python.program} cannot create a virtual environment: {_last(made.stdout + made.stderr)}",
            f"Install its venv module: apt-get install python3-venv (or python{python.version}-venv)",
        )


def _install(venv: Path, wanted: str, offline: Path | None = None) -> None:
    listed = venv / "requirements.txt"
    listed.write_text(wanted)
    where = ["--no-index", "--find-links", str(offline)] if offline else []
    done = _run([venv / "bin" / "python", "-m", "pip", "install", *PIP, *where, "-r", listed])
    if done.returncode == 0:
        return
    other = OTHER_FILE.search(done.stderr)
    raise ServerError(
        f"pip could not install the backends' packages: {_last(done.stderr)}"
        if other is None
        else f"the file of {other[1]} has another digest than this release names: {other[2]}",
        f"Fetch them again, where there is a network: dbinfer host-venv {offline} --download"
        if offline
        else "Check the network and pip's settings (pip config list), or take the packages from a machine that has a "
        "network: dbinfer host-venv PATH --offline FOLDER, and then dbinfer up --venv PATH",
    )


def _run(words: list[str | Path]) -> subprocess.CompletedProcess[str]:
    # 022: the server's user must be able to read what is made, whatever umask the caller has
    return subprocess.run(words, capture_output=True, text=True, check=False, umask=0o022)


def check_safe(venv: Path, python: Python, account: Account) -> None:
    """Check that only root and the server's user decide what runs in this venv; runs nothing in it.

    Raises:
        ServerError: others may write it.
    """
    unsafe = why_unsafe(str(venv), python.version, account.uid, account.gid)
    if unsafe:
        raise ServerError(
            f"the venv {venv} is not safe to import from: {unsafe}",
            f"Only root and the server's user {account.name!r} may write there: "
            f"chown -R root '{venv}'; chmod -R go-w '{venv}'",
        )


def check_venv(venv: Path, python: Python, account: Account) -> None:
    """Check, as the server's user, that this venv can be read, fits PL/Python and imports what backends need.

    Raises:
        ServerError: it cannot be reached, does not run, is of another Python, or lacks a package.
    """
    program = venv / "bin" / "python"
    if not program.exists():
        raise ServerError(
            f"{venv} is not a virtual environment: it has no bin/python", "Make one: dbinfer host-venv PATH"
        )
    account.check_reach(venv / "bin")
    # bin/python is a link to an interpreter that may lie in a folder closed to that user, such as /root
    account.check_reach(program.resolve().parent)
    asked = account.run([str(program), "-I", "-c", IMPORT_CODE])
    if asked.returncode:
        raise ServerError(
            f"the server's user {account.name!r} cannot use the virtual environment {venv}: {_last(asked.stderr)}",
            f"Make it readable: chmod -R o+rX '{venv}'. Or make another one: dbinfer host-venv PATH",
        )
    if asked.stdout.strip() != python.version:
        raise ServerError(
            f"the virtual environment {venv} has Python {asked.stdout.strip()}, but PL/Python runs {python.version}",
            f"Make another one: dbinfer host-venv PATH --python {python.program}",
        )


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # pip says why in lines that begin with ERROR, and goes on with advice
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1]


@documented
@dataclass(frozen=True)
class HostVenvOptions:
    """Of which Python, for whom, and whence its packages come."""

    python: Path | None = option(
        None,
        "Program of the Python that PL/Python runs. Default: that of this host's newest PostgreSQL, else python3.",
        metavar="PROGRAM",
    )
    user: str | None = option(
        None,
        "The server's user, who must be able to read it. Default: gpadmin or postgres, if you are root; else you.",
        metavar="NAME",
    )
    offline: Path | None = option(
        None, "Take the packages from this folder, and ask no index.", metavar="FOLDER"
    )
    download: bool = option(
        False, "Put the packages into FOLDER, for --offline on other hosts, and make no environment."
    )
    python_version: str | None = option(
        None, "Of --download: the hosts' Python, for example 3.9. Default: this host's.", metavar="3.X"
    )

    def __post_init__(self) -> None:
        check(self)
        if self.python_version and not pins.VERSION.fullmatch(self.python_version):
            raise UsageError(f"{self.python_version!r} is no version of Python", "Write for example 3.11.")
        if self.python_version and not self.download:
            raise UsageError(
                "python_version is only of --download: an environment has the Python that makes it",
                "Name the program: --python /usr/bin/python3.9",
            )
        if self.offline and not self.offline.is_dir():
            raise UsageError(
                f"there is no folder {self.offline}",
                f"Make it where there is a network: dbinfer host-venv {self.offline} --download",
            )
        if self.download and self.offline:
            raise UsageError(
                "both --download and --offline are given", "Download first, where there is a network."
            )


@dataclass(frozen=True)
class HostVenvReport(Report):
    """A folder of packages for backends.

    Attributes:
        folder: the environment, or with --download the packages.
        python: its version, for example 3.11.
        user: as whom it was tried; None of packages alone.
        new: False where it was there already, and is as it should be.
        packages: the versions that are in it.
    """

    folder: Path
    python: str
    user: str | None
    new: bool
    packages: dict[str, str]


def host_venv(
    folder: Path | str, options: HostVenvOptions | None = None, progress: OnProgress = silent
) -> HostVenvReport:
    """Make the environment that backends of this host import from, or check the one that is there.

    Args:
        folder: the same path on all hosts of a cluster; `dbinfer install --venv` names it.

    Raises:
        ServerError: it cannot be made, others may write it, the server's user cannot use it, or it has other packages.
    """
    options, folder = options or HostVenvOptions(), Path(folder).expanduser()
    if options.download:
        return _download(folder, options, notes(f"making {folder}", progress))
    if not folder.is_absolute():
        raise UsageError(
            f"{str(folder)!r} is no absolute path, by which all hosts know the environment",
            "Write for example /opt/dbinfer/venv.",
        )
    python, account = python_at(options.python or _own_python()), host_account(options.user)
    if pins.numbers(python.version) < OLDEST:
        raise ServerError(f"{python.program} is Python {python.version}", "Backends need 3.9 or newer.")
    if folder.exists() and not folder.is_dir():
        raise ServerError(f"{folder} is not a folder", "Name one that is not there yet.")
    new = not folder.exists() or not any(folder.iterdir())
    if new:
        account.check_reach(next(above for above in folder.parents if above.is_dir()))
    with _whole(folder) if new else nullcontext():
        if new:
            say = notes(f"making {folder}", progress)
            say(f"installing what backends need (about 450 MB) with {python.program}")
            _make(folder, python)
            _install(folder, pins.text(), options.offline)
        check_safe(folder, python, account)
        check_venv(folder, python, account)
    listed = account.run([str(folder / "bin" / "python"), "-I", "-c", VERSIONS_CODE])
    found = {pins.plain(name): version for name, version in json.loads(listed.stdout).items()}
    wanted = pins.versions(python.version)
    packages = {name: found.get(pins.plain(name), "") for name in wanted}
    other = [f"{name} {packages[name] or 'not'}" for name in wanted if packages[name] != wanted[name]]
    if other:
        raise ServerError(
            f"{folder} has {', '.join(other)}; this release names {' '.join(f'{n}=={v}' for n, v in wanted.items())}",
            "Sessions import from it, so make another one beside it, and name that with dbinfer install --venv.",
        )
    return HostVenvReport(folder, python.version, account.name, new, packages)


def _own_python() -> Path:
    try:
        found = find().plpython
    except ServerError:
        found = None
    return linked_python(found) if found else Path(shutil.which("python3") or "/usr/bin/python3")


def _download(folder: Path, options: HostVenvOptions, say: Say) -> HostVenvReport:
    version = options.python_version or python_at(options.python or _own_python()).version
    wanted = pins.versions(version)
    say(f"fetching {len(wanted)} packages for Python {version}")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as err:
        raise ServerError(f"cannot make the folder {folder}: {err.strerror}", "Name another one.") from err
    listed = folder / f"requirements-{version}.txt"
    # pip takes the markers of a list for those of the Python that it runs on itself
    listed.write_text(pins.listed(version))
    place = ["--python-version", version, "--no-deps", "--dest", str(folder), "-r", str(listed)]
    done = _run([sys.executable, "-m", "pip", "download", *PIP, *place])
    if done.returncode:
        raise ServerError(
            f"pip could not fetch the packages: {_last(done.stderr)}",
            "Check the network and pip's settings (pip config list).",
        )
    return HostVenvReport(folder, version, None, True, wanted)
