"""The virtual environment that database backends import from: openvino, numpy, opencv, orjson, all pinned."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from dbinfer.base.errors import ServerError
from dbinfer.database import pins, state
from dbinfer.database.state import Home
from dbinfer.server.account import Account, Say, discard
from dbinfer_udf.host.libraries import why_unsafe

STAMP = "dbinfer-requirements.txt"
VERSION_CODE = "import sys; print('%d.%d' % sys.version_info[:2])"
IMPORT_CODE = """
import sys
sys.modules["openvino_telemetry"] = None  # importing openvino must not phone home
import cv2, numpy, openvino, orjson
print(sys.version_info[0], sys.version_info[1], sep=".")
"""
# Wheels only: to build OpenVINO or OpenCV would take hours and a compiler
PIP = ("-m", "pip", "install", "--disable-pip-version-check", "--no-input", "--quiet", "--only-binary=:all:")


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
    asked = subprocess.run([program, "-I", "-c", VERSION_CODE], capture_output=True, text=True, check=False)
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
    """Remove the runtimes of this state folder that `ensure` would not return and that no running server uses.

    One without its stamp stays: another process may be making it.
    """
    servers = state.servers()
    if servers is None:
        return
    try:
        used = {Path(state.venv) for state in map(state.load, {home, *servers}) if state is not None}
    except ServerError:  # another user's server, of which nobody here knows what it imports
        return
    for venv in sorted(home.runtimes.glob("py*-*")):
        if venv not in {own_venv(home, python), *used} and (venv / STAMP).is_file() and not venv.is_symlink():
            say(f"removing {venv}, which no server uses any more")
            shutil.rmtree(venv, ignore_errors=True)


def ensure(home: Home, python: Python, say: Say) -> Path:
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
    _make(venv, python)
    _install(venv, wanted)
    # Last: a venv without it was interrupted and is made again
    stamp.write_text(wanted)
    return venv


def _make(venv: Path, python: Python) -> None:
    # 022: the server's user must be able to read it, whatever umask the caller has
    made = subprocess.run(
        [python.program, "-I", "-m", "venv", str(venv)],
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )
    if made.returncode == 0:
        return
    discard(venv)
    raise ServerError(
        f"{python.program} cannot create a virtual environment: {_last(made.stdout + made.stderr)}",
        f"Install its venv module: apt-get install python3-venv (or python{python.version}-venv)",
    )


def _install(venv: Path, wanted: str) -> None:
    listed = venv / "requirements.txt"
    listed.write_text(wanted)
    done = subprocess.run(
        [venv / "bin" / "python", *PIP, "-r", str(listed)],
        capture_output=True,
        text=True,
        check=False,
        umask=0o022,
    )
    if done.returncode == 0:
        return
    discard(venv)
    raise ServerError(
        f"pip could not install the backends' packages: {_last(done.stderr)}",
        "Check the network and pip's settings (pip config list), "
        "or use a virtual environment that has the packages of dbinfer_udf/requirements.txt: dbinfer up --venv PATH",
    )


def check_safe(venv: Path, python: Python, account: Account) -> None:
    """Check that nobody but root and the server's user decides what runs in this venv; runs nothing in it.

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


def check(venv: Path, python: Python, account: Account) -> None:
    """Check, as the server's user, that this venv can be read, fits PL/Python and imports what backends need.

    Raises:
        ServerError: it cannot be reached, does not run, is of another Python, or lacks a package.
    """
    program = venv / "bin" / "python"
    if not program.exists():
        raise ServerError(
            f"{venv} is not a virtual environment: it has no bin/python", "Create it: python3 -m venv PATH"
        )
    account.check_reach(venv / "bin")
    # bin/python is a link to an interpreter that may lie in a folder closed to that user, such as /root
    account.check_reach(program.resolve().parent)
    asked = account.run([str(program), "-I", "-c", IMPORT_CODE])
    if asked.returncode:
        raise ServerError(
            f"the server's user {account.name!r} cannot use the virtual environment {venv}: {_last(asked.stderr)}",
            f"Install the packages there, and make it readable: {program} -m pip install -r requirements.txt; "
            f"chmod -R o+rX '{venv}'",
        )
    if asked.stdout.strip() != python.version:
        raise ServerError(
            f"the virtual environment {venv} has Python {asked.stdout.strip()}, but PL/Python runs {python.version}",
            f"Create it: {python.program} -m venv {venv}",
        )


def _last(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    # pip says why in lines that begin with ERROR, and goes on with advice
    errors = [line for line in lines if line.startswith("ERROR")]
    return (errors or lines or ["no message"])[-1]
