"""Which guards this kernel has for what the engine starts: files closed by Landlock, system calls by a filter."""

from __future__ import annotations

from typing import Any, Dict

from . import landlock, seccomp


def guards() -> Dict[str, Any]:
    """Return the version of Landlock's interface (0: none), and whether the kernel filters system calls."""
    return {"landlock": landlock.version(), "seccomp": seccomp.known()}


def missing(found: Dict[str, Any]) -> str:
    """Return a sentence for the log, nothing where none is missing."""
    names = {"landlock": "Landlock", "seccomp": "filter of system calls"}
    lacking = ["no " + text for name, text in names.items() if not found[name]]
    return "The kernel has %s (docs/security.md)." % " and ".join(lacking) if lacking else ""
