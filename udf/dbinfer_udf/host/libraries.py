"""Brings numpy, OpenCV and OpenVINO into a process from a venv that is safe to import from: no telemetry, signals
masked.
"""

from __future__ import annotations

import importlib
import importlib.util
import os
import pwd
import site
import socket
import stat
import sys
import types
from typing import Any, Dict, Iterator, Optional

from ..errors import ModelError
from .image_limits import DEFAULT_LIMITS
from .signals import signals_blocked

WRITABLE_BY_ALL, WRITABLE_BY_GROUP = stat.S_IWOTH, stat.S_IWGRP


def site_packages(venv: str, version: str) -> str:
    """Return the site-packages folder of a venv for a version of Python, for example 3.11."""
    return os.path.join(venv, "lib", "python" + version, "site-packages")


def why_unsafe(venv: str, version: str, uid: int, gid: int) -> Optional[str]:
    """Return what is wrong, as a clause that names the path; None where the venv is safe.

    The folders above it count, because whoever may rename one of them may put another venv in its place. Within
    site-packages the packages' own folders and files are looked at, not what lies deeper: pip makes all of it alike.

    Args:
        uid, gid: of the server's user.
    """
    top = os.path.realpath(venv)
    for path in _above(top):
        wrong = _why(path, uid, None)
        if wrong:
            return wrong
    for path in _inside(top, version):
        wrong = _why(path, uid, gid)
        if wrong:
            return wrong
    return None


def _above(path: str) -> Iterator[str]:
    above = os.path.dirname(path)
    if above != path:
        yield from _above(above)
        yield above


def _inside(top: str, version: str) -> Iterator[str]:
    yield top
    yield from _entries(top)
    # a link to the interpreter, which the trial starts
    yield os.path.join(top, "bin", "python")
    yield os.path.join(top, "lib", "python" + version)
    packages = site_packages(top, version)
    yield packages
    yield from _entries(packages)


def _entries(folder: str) -> Iterator[str]:
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        yield os.path.join(folder, name)


def _why(path: str, uid: int, gid: Optional[int]) -> Optional[str]:
    """Return what is wrong with a path; `gid` None: its group does not matter (/usr/local is its group's on Debian)."""
    try:
        status = os.stat(path)
    except OSError:  # a link to nowhere imports nothing
        return None
    # in a sticky folder such as /tmp nobody can rename what belongs to another
    sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX
    if status.st_uid not in (0, uid):
        return "%s belongs to %s" % (path, _name(status.st_uid))
    if status.st_mode & WRITABLE_BY_ALL and not (sticky and gid is None):
        return "everybody may write %s" % path
    if gid is not None and status.st_mode & WRITABLE_BY_GROUP and status.st_gid not in (0, gid):
        return "group %d may write %s" % (status.st_gid, path)
    return None


def _name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return "user id %d" % uid


def add_venv(venv: str) -> None:
    """Put a venv's packages first on sys.path.

    Raises:
        ModelError: it is not there, was made by another Python version, or others may write it.
    """
    version = "%d.%d" % sys.version_info[:2]
    # the folder itself, not a link to it: what is imported is what was looked at
    folder = os.path.realpath(site_packages(venv, version))
    if folder in sys.path:
        return
    host = socket.gethostname()
    if not os.path.isdir(folder):
        raise ModelError(
            "the runtime's Python packages are not on host %s: there is no folder %s"
            % (host, site_packages(venv, version)),
            hint="On that host: python%s -m venv %s && "
            "%s/bin/pip install openvino numpy opencv-python-headless orjson; "
            "or choose another virtual environment: dbinfer install --venv PATH" % (version, venv, venv),
            sqlstate="58P01",
            public="the runtime's Python packages are not there",
        )
    unsafe = why_unsafe(venv, version, os.geteuid(), os.getegid())
    if unsafe:
        raise ModelError(
            "the runtime's Python packages on host %s are not safe to import: %s" % (host, unsafe),
            hint="On that host: chown -R root %s && chmod -R go-w %s (and the folder above, if it is named); "
            "or choose another virtual environment: dbinfer install --venv PATH" % (venv, venv),
            sqlstate="42501",
            public="the runtime's Python packages are not safe to import",
        )
    before = list(sys.path)
    site.addsitedir(folder)  # runs the .pth files in there, so only now
    added = [path for path in sys.path if path not in before]
    # addsitedir appends, but the system's own numpy must not come first
    sys.path[:] = added + before


def load(venv: str, max_pixels: int = DEFAULT_LIMITS.max_pixels) -> Dict[str, Any]:
    """Import the libraries once and return them by name: numpy, cv2, openvino (its extension module only).

    The whole openvino package costs more time, sends telemetry and starts a thread; the extension module alone does
    not. Where another function of the session imports openvino later, it gets the whole package.

    Args:
        max_pixels: of an image, which holds for OpenCV as long as the process lives.
    """
    if venv:
        add_venv(venv)
    # its warnings would fill the server's log; callers get an ImageError
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    # OpenCV reads it once, at its import, and else decodes 2^30 pixels of a file whose header we misread
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(max_pixels))
    # numpy would start a thread for each core, which nothing here uses
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        # threads that an import starts must not receive the database's signals
        with signals_blocked():
            libraries = {name: importlib.import_module(name) for name in ("numpy", "cv2", "orjson")}
            libraries["openvino"] = _openvino_extension()
            # backends are what runs in parallel here, not the pixels of one image
            libraries["cv2"].setNumThreads(1)
    except ImportError as err:
        raise _missing(venv, err) from err
    return libraries


def find(venv: str) -> None:
    """See that the libraries are there, without importing any; ModelError where one is not."""
    if venv:
        add_venv(venv)
    for name in ("numpy", "cv2", "orjson", "openvino"):
        if importlib.util.find_spec(name) is None:
            raise _missing(venv, ImportError("No module named %r" % name))


def _missing(venv: str, err: ImportError) -> ModelError:
    return ModelError(
        "the runtime's Python packages cannot be imported on host %s: %s" % (socket.gethostname(), err),
        detail="The virtual environment is %s, with Python %s." % (venv or "none", sys.version.split()[0]),
        hint="Install them there: %s/bin/pip install openvino numpy opencv-python-headless orjson" % venv,
        sqlstate="58P01",
        public="the runtime's Python packages cannot be imported",
    )


def _openvino_extension() -> Any:
    # None makes an import of the name fail, and openvino does without
    for unwanted in ("openvino_telemetry", "openvino.tools.ovc"):
        sys.modules.setdefault(unwanted, None)  # type: ignore[arg-type]
    # another function of this session has imported the whole package
    if "openvino" in sys.modules:
        return importlib.import_module("openvino._pyopenvino")
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("No module named 'openvino'")
    # a package with the right path and without its __init__, which imports all the rest
    package = types.ModuleType("openvino")
    package.__path__ = list(spec.submodule_search_locations)
    sys.modules["openvino"] = package
    try:
        return importlib.import_module("openvino._pyopenvino")
    finally:
        del sys.modules["openvino"]


def versions() -> Dict[str, str]:
    """Return the installed versions by name, from the packages' metadata."""
    from importlib import metadata

    found = {}
    for name, packages in (
        ("openvino", ("openvino",)),
        ("numpy", ("numpy",)),
        # either of them provides cv2
        ("opencv", ("opencv-python-headless", "opencv-python")),
        ("orjson", ("orjson",)),
    ):
        for package in packages:
            try:
                found[name] = metadata.version(package)
                break
            except metadata.PackageNotFoundError:
                continue
    return found
