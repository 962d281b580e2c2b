"""Compiles the runtime for the registry, so that a session reads what it would else compile; executed by itself."""

from __future__ import annotations

import json
import marshal
import zlib
from typing import Dict


def pack(sources: str, digest: str) -> bytes:
    """Return the modules compiled by this Python, each by itself, and all sources for tracebacks.

    Args:
        sources: JSON: the source of each module.
        digest: of the runtime, from which the names of files in tracebacks come.
    """
    modules: Dict[str, str] = json.loads(sources)
    code = {name: _compiled(name, source, digest) for name, source in modules.items()}
    return marshal.dumps({"code": code, "sources": zlib.compress(sources.encode(), 9)})


def _compiled(name: str, source: str, digest: str) -> bytes:
    # as bootstrap.Finder.get_filename and get_code
    path = "dbinfer-%s/%s.py" % (digest[:12], name.replace(".", "/"))
    return zlib.compress(marshal.dumps(compile(source, path, "exec", dont_inherit=True)), 9)
