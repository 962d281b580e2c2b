"""The embedded server: a private PostgreSQL cluster of this project."""

from __future__ import annotations

from dbinfer.server.lifecycle import Server, down, status, up

__all__ = ["Server", "down", "status", "up"]
