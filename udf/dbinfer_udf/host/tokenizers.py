"""OpenVINO's tokenizers: operations that turn a text into a network's numbers, of a package that is optional on hosts.

Their library is loaded only for models that have such operations.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.util
import os
import socket
from typing import Any, Dict

from ..errors import ModelError

PACKAGE = "openvino_tokenizers"
LIBRARY = os.path.join("lib", "libopenvino_tokenizers.so")
# How an IR marks operations that are not OpenVINO's own
MARK = b'version="extension"'
# kept: a core that comes after another one may have its number
_extended: Dict[int, Any] = {}


def needed(xml: str) -> bool:
    """Return whether an IR has operations beyond OpenVINO's own."""
    # what is wrong with a file that is not there, OpenVINO says
    with contextlib.suppress(FileNotFoundError), open(xml, "rb") as file:
        return MARK in file.read()
    return False


def require_where_needed(xml: str, version: str) -> None:
    """Raise unless this host has the tokenizers that an IR needs; nothing is loaded.

    Args:
        version: OpenVINO's.

    Raises:
        ModelError: the package is not there, or does not fit OpenVINO's version exactly.
    """
    if needed(xml):
        _library(version)


def add_where_needed(openvino: Any, core: Any, xml: str) -> None:
    """Teach a core the tokenizers' operations if an IR has such.

    Raises:
        ModelError: the package is not there, does not fit OpenVINO's version exactly, or cannot be loaded.
    """
    if id(core) not in _extended and needed(xml):
        _add(core, openvino.get_version())
        _extended[id(core)] = core


def _library(version: str) -> str:
    # here: it takes 11 ms to import, and most processes have no model that reads text
    from importlib import metadata

    spec = importlib.util.find_spec(PACKAGE)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    if not folders:
        raise _lacking("needs openvino-tokenizers, which is not installed", version)
    # a build of one's own may have none
    with contextlib.suppress(metadata.PackageNotFoundError):
        found = metadata.version(PACKAGE)
        if not found.startswith(_release(version) + "."):
            raise _lacking("cannot use openvino-tokenizers %s, which is installed" % found, version)
    return os.path.join(folders[0], LIBRARY)


def _add(core: Any, version: str) -> None:
    library = _library(version)
    try:
        # kept open: the graphs of a core outlive it when a process ends, and would call code that is gone
        ctypes.CDLL(library)
        core.add_extension(library)
    except (OSError, RuntimeError) as err:
        reason = str(err).strip().splitlines()[-1]
        raise _lacking("cannot use the openvino-tokenizers that is installed (%s)" % reason, version) from err


def _release(version: str) -> str:
    """Return 2026.4.1 of 2026.4.1-20123-1a2b3c4d5e6."""
    return version.split("-", maxsplit=1)[0]


def _lacking(what: str, version: str) -> ModelError:
    return ModelError(
        "the model reads text and %s on host %s" % (what, socket.gethostname()),
        hint="Into the environment that runs the model there: pip install openvino-tokenizers==%s.*"
        % _release(version),
        sqlstate="58P01",
        public="the model reads text and %s" % what,
    )
