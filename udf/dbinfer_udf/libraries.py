"""Brings numpy, OpenCV and OpenVINO into a backend: from the host's venv, no telemetry, signals masked."""

from __future__ import annotations

import importlib
import importlib.util
import os
import site
import socket
import sys
import types
from typing import Any, Dict

from .errors import ModelError
from .image_limits import DEFAULT_LIMITS
from .interrupts import signals_blocked


def site_packages(venv: str) -> str:
    """Return the site-packages folder of a venv for the Python that runs here."""
    return os.path.join(venv, "lib", "python%d.%d" % sys.version_info[:2], "site-packages")


def add_venv(venv: str) -> None:
    """Put a venv's packages first on sys.path.

    Raises:
        ModelError: it is not there, or was made by another Python version.
    """
    folder = site_packages(venv)
    if folder in sys.path:
        return
    if not os.path.isdir(folder):
        python = "python%d.%d" % sys.version_info[:2]
        raise ModelError(
            "the runtime's Python packages are not on host %s: there is no folder %s"
            % (socket.gethostname(), folder),
            hint="On that host: %s -m venv %s && %s/bin/pip install openvino numpy opencv-python-headless orjson; "
            "or name another venv with: dbinfer install --venv PATH" % (python, venv, venv),
            sqlstate="58P01",
        )
    before = list(sys.path)
    site.addsitedir(folder)
    added = [path for path in sys.path if path not in before]
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
    os.environ.setdefault("OPENCV_LOG_LEVEL", "SILENT")
    # OpenCV reads it once, at its import, and else decodes 2^30 pixels of a file whose header we misread
    os.environ.setdefault("OPENCV_IO_MAX_IMAGE_PIXELS", str(max_pixels))
    # numpy would start a thread for each core, which nothing here uses
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        with signals_blocked():
            libraries = {name: importlib.import_module(name) for name in ("numpy", "cv2", "orjson")}
            libraries["openvino"] = _openvino_extension()
            libraries["cv2"].setNumThreads(1)
    except ImportError as err:
        raise ModelError(
            "the runtime's Python packages cannot be imported on host %s: %s" % (socket.gethostname(), err),
            detail="venv: %s, Python %s" % (venv or "none", sys.version.split()[0]),
            hint="Install them there: %s/bin/pip install openvino numpy opencv-python-headless orjson" % venv,
            sqlstate="58P01",
        ) from err
    return libraries


def _openvino_extension() -> Any:
    for unwanted in ("openvino_telemetry", "openvino.tools.ovc"):
        sys.modules.setdefault(unwanted, None)  # type: ignore[arg-type]
    if "openvino" in sys.modules:
        return importlib.import_module("openvino._pyopenvino")
    spec = importlib.util.find_spec("openvino")
    if spec is None or not spec.submodule_search_locations:
        raise ImportError("No module named 'openvino'")
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
