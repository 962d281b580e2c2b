"""The command line: one module per group of commands, gathered into one application."""

from __future__ import annotations

from dbinfer.cli.app import main

__all__ = ["main"]
